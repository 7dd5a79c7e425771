package proxy

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
	// Also those who may not do anything else must be able to run it.
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kube-vmap")
	build := exec.Command("go", "build", "-ldflags", "-X main.version=of-the-tests", "-o", path, "kube-vmap/cmd/kube-vmap")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// program is the path of the built program.
func program(t *testing.T) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
