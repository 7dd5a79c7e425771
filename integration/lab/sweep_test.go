package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// gone is a process id above the largest possible limit.
const gone = 1<<22 + 1

func TestAbandonedMatchesOnlyEndedProcesses(t *testing.T) {
	for name, want := range map[string]bool{
		fmt.Sprintf("demo-%d-pod-1", gone):        true,
		fmt.Sprintf("demo-%d-pod-1", os.Getpid()): false,
		fmt.Sprintf("other-%d-pod-1", gone):       false,
		fmt.Sprintf("demo-%d", gone):              false,
		"demo-x-pod-1":                            false,
		"demo-":                                   false,
		"demo":                                    false,
	} {
		if got := abandoned(name, "demo"); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestNewRemovesNamespacesOfAKilledProcess(t *testing.T) {
	if err := Missing(); err != nil {
		if os.Getenv("KUBE_VMAP_REQUIRE_KERNEL") != "" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED, NOTHING TESTED: %v", err)
	}
	name := fmt.Sprintf("sweeptest-%d-pod-1", gone)
	left, err := newNamespace(name)
	if err != nil {
		t.Fatal(err)
	}
	defer left.fd.Close()
	l, err := New(Options{Names: "sweeptest"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(namesDir, name)); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", name, err)
	}
}
