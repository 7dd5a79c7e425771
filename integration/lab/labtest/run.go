package labtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/integration/lab"
)

// sbin is not always in the path of root.
const sbin = "/usr/sbin"

// Path returns the path of a program. It skips or fails the test as [Lacking] does if there is
// none.
func Path(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path = filepath.Join(sbin, program)
	}
	if _, err := os.Stat(path); err != nil {
		Lacking(t, err)
	}
	return path
}

// Run runs a program of the machine on a host, which must succeed, and returns its output.
func Run(t testing.TB, h *lab.Host, stdin, program string, args ...string) string {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd := h.Command(t.Context(), Path(t, program), args...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":"+sbin)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s\nof:\n%s", program, strings.Join(args, " "), err, &stderr, stdin)
	}
	return out.String()
}
