// Package built is kube-vmap as tests run it: one program for all tests of a
// package, built when the first of them asks for it.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	stdsync "sync"
	"testing"
)

// Variable is the environment variable with the path of a program that is there
// already, for tests that run where none can be built.
const Variable = "KUBE_VMAP_BINARY"

// dir is the folder of the built program.
var dir string

// Main runs a package's tests, and then removes what they built. It returns the
// exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if dir != "" {
		_ = os.RemoveAll(dir) // a folder for what is of no use to anybody
	}
	return code
}

// Path builds the program once, if [Variable] names none, and returns its path. It
// is built with the flags of the tests' own build, from GOFLAGS; its version is
// "of-the-tests". Also users who may do nothing else can run it.
func Path() (string, error) { return once() }

var once = stdsync.OnceValues(func() (path string, err error) {
	if path := os.Getenv(Variable); path != "" {
		return path, nil
	}
	if dir, err = os.MkdirTemp("", "kube-vmap-"); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "kube-vmap")
	// What only a debugger reads takes the linker much of its time.
	build := exec.Command("go", "build", "-ldflags", "-w -X main.version=of-the-tests", "-o", path, "kube-vmap/cmd/kube-vmap")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})
