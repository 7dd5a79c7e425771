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

// dir is the folder of the built programs.
var dir string

// Main runs a package's tests, and then removes what they built. It returns the
// exit code.
func Main(m *testing.M) int {
	code := m.Run()
	Remove()
	return code
}

// Remove removes what was built.
func Remove() {
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
}

// Path builds the program once, if [Variable] names none, and returns its path. It
// is built with the flags of the tests' own build, from GOFLAGS; its version is
// "of-the-tests". Users without any rights can execute it.
func Path() (string, error) { return daemon() }

var daemon = stdsync.OnceValues(func() (path string, err error) {
	if path := os.Getenv(Variable); path != "" {
		return path, nil
	}
	return build("kube-vmap", ".", "./cmd/kube-vmap")
})

// Plugin is [Path] for kubectl-vmap, the plugin of kubectl, in a module of its own. It is
// always built.
func Plugin() (string, error) { return plugin() }

var plugin = stdsync.OnceValues(func() (path string, err error) {
	return build("kubectl-vmap", "cmd/kubectl-vmap", ".")
})

// build builds a package of the module in a folder of the repository.
func build(name, module, pkg string) (path string, err error) {
	if err := makeDir(); err != nil {
		return "", err
	}
	path = filepath.Join(dir, name)
	top, err := root()
	if err != nil {
		return "", err
	}
	// Without -w, the linker spends much of its time on data for debuggers.
	build := exec.Command("go", "build", "-ldflags", "-w -X main.version=of-the-tests", "-o", path, pkg)
	build.Dir = filepath.Join(top, module)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

var makeDir = stdsync.OnceValue(func() (err error) {
	if dir, err = os.MkdirTemp("", "kube-vmap-"); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
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
