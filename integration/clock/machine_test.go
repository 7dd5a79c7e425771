package clock

import (
	"os"
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

// cpuTime returns the processor time of a process: clock_getcpuclockid(3).
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	const bits, ofProcess = 3, 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<bits|ofProcess), &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Nano())
}
