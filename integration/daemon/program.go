package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	stdsync "sync"
	"testing"
)

// built is the folder of the built program.
var built string

// Main runs a package's tests, and then removes what they built. It returns the
// exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built) // a folder for what is of no use to anybody
	}
	return code
}

// program builds the program once and returns its path. It has the flags of the
// tests' own build, from GOFLAGS.
var program = stdsync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "kube-vmap-"); err != nil {
		return "", err
	}
	path := filepath.Join(built, "kube-vmap")
	// What only a debugger reads takes the linker half its time.
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "kube-vmap/cmd/kube-vmap")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})
