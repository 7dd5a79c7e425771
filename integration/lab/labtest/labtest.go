// Package labtest gives tests a [lab.Lab].
package labtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/nft/kernel"
)

// RequireVariable is the environment variable which, if not empty, makes tests fail
// instead of being skipped because the machine lacks something.
const RequireVariable = "KUBE_VMAP_REQUIRE_KERNEL"

// New builds a lab that is closed with the test. It skips the test if the
// machine cannot have one, or fails it if [RequireVariable] is set.
func New(t testing.TB, o lab.Options) *lab.Lab {
	t.Helper()
	Require(t)
	if o.Bridge {
		if err := lab.MissingBridge(); err != nil {
			Lacking(t, err)
		}
	}
	l, err := lab.New(o)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, l.Close)
	return l
}

// Alone returns a [lab.Alone] that is closed with the test. It skips or fails the
// test as [New] does.
func Alone(t testing.TB) *lab.Host {
	t.Helper()
	Require(t)
	h, done, err := lab.Alone()
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, done)
	return h
}

func closeAfter(t testing.TB, done func() error) {
	t.Helper()
	t.Cleanup(func() {
		if err := done(); err != nil {
			t.Error(err)
		}
	})
}

// Require skips the test if the machine cannot have a lab, or fails it if
// [RequireVariable] is set.
func Require(t testing.TB) {
	t.Helper()
	if err := lab.Missing(); err != nil {
		Lacking(t, err)
	}
}

// Lacking skips the test because the machine lacks something, which err describes, or
// fails it if [RequireVariable] is set.
func Lacking(t testing.TB, err error) {
	t.Helper()
	if os.Getenv(RequireVariable) != "" {
		t.Fatalf("cannot run, and %s is set: %v", RequireVariable, err)
	}
	t.Skipf("SKIPPED, NOTHING TESTED: %v", err)
}

// Kernel opens nf_tables of a host. It is closed with the test.
func Kernel(t testing.TB, h *lab.Host) *kernel.Kernel {
	t.Helper()
	k, err := kernel.Open(kernel.Config{NetNS: h.FD()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() }) // what was written is checked
	return k
}

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
