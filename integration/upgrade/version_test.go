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
	program := filepath.Join(tree, "kube-vmap")
	build := fmt.Sprintf("git -C %q archive %q go.mod go.sum cmd model nft sync | tar -x && go build -ldflags -w -o %q ./cmd/kube-vmap",
		strings.TrimSpace(string(root)), f, program)
	c := exec.CommandContext(t.Context(), "sh", "-c", build)
	c.Dir = tree
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	return program
}
