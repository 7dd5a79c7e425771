// Package built provides the programs that tests run. They exist before the first test of a
// package starts, so no time limit of a test includes a build.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Variable is the environment variable with the path of a kube-vmap that was built before, for
// machines without a Go toolchain. Other programs may be in the same folder; see .ci/with-programs.
const Variable = "KUBE_VMAP_BINARY"

// Program is a program of this repository.
type Program struct {
	name        string
	module, pkg string // its folder in the repository, and the package there
}

// The programs of tests.
var (
	KubeVMap    = Program{"kube-vmap", ".", "./cmd/kube-vmap"}
	Plugin      = Program{"kubectl-vmap", "cmd/kubectl-vmap", "."}
	Scaler      = Program{"scaler", "deploy/scaler", "."}
	TriggerTest = Program{"triggertest", "deploy/scaler", "./internal/triggertest"}
	Informers   = Program{"informers", "integration/cluster", "./informers"}
)

// dir is the folder of the programs that [Main] built.
var dir string

// Main provides kube-vmap and other programs, runs a package's tests and removes what it built. It
// returns the exit code.
func Main(m *testing.M, others ...Program) int {
	defer func() { _ = os.RemoveAll(dir) }()
	for _, p := range append(others, KubeVMap) {
		if _, ok := p.found(); ok {
			continue
		}
		if err := p.build(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s for tests: %v\n", p.name, err)
			return 1
		}
	}
	return m.Run()
}

// Path returns the path of a program that [Main] provided.
func (p Program) Path() string {
	if path, ok := p.found(); ok {
		return path
	}
	return filepath.Join(dir, p.name)
}

// found returns the path of a program that [Variable] provides.
func (p Program) found() (path string, ok bool) {
	path = os.Getenv(Variable)
	if path == "" || p == KubeVMap {
		return path, path != ""
	}
	path = filepath.Join(filepath.Dir(path), p.name)
	_, err := os.Stat(path)
	return path, err == nil
}

// build builds the program with the flags of the tests' own build, from GOFLAGS; its version is
// "of-the-tests". Users without any rights can execute it.
func (p Program) build() (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "kube-vmap-"); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	// Build: before the tests. Not in the caller's module: it has other versions of libraries.
	top, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "kube-vmap").Output()
	if err != nil {
		return fmt.Errorf("find the module kube-vmap: %w", err)
	}
	// Build: before the tests. Without -w, the linker spends much of its time on data for debuggers.
	build := exec.Command("go", "build", "-ldflags", "-w -X main.version=of-the-tests", "-o", filepath.Join(dir, p.name), p.pkg)
	build.Dir = filepath.Join(strings.TrimSpace(string(top)), p.module)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}
