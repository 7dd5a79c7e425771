package upgrade

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildVersion builds the program of a version from git, and returns its path. It skips the
// test if the repository does not have the commit.
func buildVersion(t *testing.T, f fixture) string {
	t.Helper()
	tree := t.TempDir()
	root, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--show-toplevel").Output()
	if err == nil {
		err = exec.CommandContext(t.Context(), "git", "cat-file", "-e", string(f)+"^{commit}").Run()
	}
	if err != nil {
		t.Skipf("the source of %s cannot be had: %v", f, err)
	}
	unpack := fmt.Sprintf("git -C %q archive %q go.mod go.sum cmd model nft sync | tar -x -C %q", strings.TrimSpace(string(root)), f, tree)
	run(t, "", "sh", "-c", unpack)
	program := filepath.Join(tree, "kube-vmap")
	run(t, tree, "go", "build", "-ldflags", "-w", "-o", program, "./cmd/kube-vmap")
	return program
}

// run runs a command in a folder.
func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}
