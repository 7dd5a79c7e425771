// Package built builds kube-vmap for tests, once for all tests of a package, when
// the first of them needs it.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	stdsync "sync"
	"testing"
)

// Variable is the environment variable with the path of a program that was built
// before, for machines without a Go toolchain.
const Variable = "KUBE_VMAP_BINARY"

// dir is the folder of the built program.
var dir string

// Main runs a package's tests, and then removes what they built. It returns the
// exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
	return code
}

// Path builds the program once, if [Variable] names none, and returns its path. It
// is built with the flags of the tests' own build, from GOFLAGS; its version is
// "of-the-tests". Users without any rights can execute it.
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
	// Without -w, the linker spends much of its time on data for debuggers.
	build := exec.Command("go", "build", "-ldflags", "-w -X main.version=of-the-tests", "-o", path, "./cmd/kube-vmap")
	if build.Dir, err = root(); err != nil {
		return "", err
	}
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// root returns the folder of the module kube-vmap. Tests of other modules must not
// build it with their versions of libraries.
func root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "kube-vmap").Output()
	if err != nil {
		return "", fmt.Errorf("find the module kube-vmap: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
