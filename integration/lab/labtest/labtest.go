// Package labtest gives tests a [lab.Lab].
package labtest

import (
	"os"
	"testing"

	"kube-vmap/integration/lab"
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
