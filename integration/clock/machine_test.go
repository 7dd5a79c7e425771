package clock

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ownMachine is the environment variable which, if not empty, confirms that nothing else
// uses this machine.
const ownMachine = "KUBE_VMAP_OWN_MACHINE"

// requireOwnMachine skips a test that affects the whole machine.
func requireOwnMachine(t *testing.T) {
	t.Helper()
	if os.Getenv(ownMachine) == "" {
		t.Skip("SKIPPED, NOTHING TESTED: this sets the clock, and needs a machine of its own; `make test-kernels` has some")
	}
}

// jump sets the clock, and sets it back when the test ends.
func jump(t *testing.T, by time.Duration) {
	t.Helper()
	add := func(d time.Duration) error {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
			return err
		}
		to := unix.NsecToTimespec(now.Nano() + int64(d))
		return unix.ClockSettime(unix.CLOCK_REALTIME, &to)
	}
	if err := add(by); err != nil {
		t.Fatalf("set the clock: %v", err)
	}
	t.Cleanup(func() {
		if err := add(-by); err != nil {
			t.Errorf("set the clock back: %v", err)
		}
	})
}

// cpuTime returns the processor time of a process.
func cpuTime(t *testing.T, pid int) (total time.Duration) {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no threads of process %d: %v", pid, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // a thread that has ended
		}
		on, _, _ := bytes.Cut(text, []byte(" "))
		ns, err := strconv.ParseInt(string(on), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		total += time.Duration(ns)
	}
	return total
}
