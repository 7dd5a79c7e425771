package matrix

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	stdsync "sync"
	"testing"
)

// built is the folder of the built program, removed when all tests are over.
var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// buildOnce builds the program once and returns its path. With GOFLAGS=-race it has
// the race detector, as the tests have.
var buildOnce = stdsync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kube-vmap-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "kube-vmap")
	if out, err := exec.Command("go", "build", "-o", path, "kube-vmap/cmd/kube-vmap").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})
