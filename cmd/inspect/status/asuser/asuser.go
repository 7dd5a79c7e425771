// Package asuser has tests do something as another user of the machine, in a process
// that stays root's: a thread of its own becomes that user, and ends with it.
package asuser

import (
	"runtime"
	"syscall"
	"testing"
)

// Do does it as the user with this uid, and returns what comes of it. It takes root; an
// error ends the test.
func Do[T any](t *testing.T, uid int, it func() (T, error)) T {
	t.Helper()
	var result T
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with its user
		_, _, failed := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
		if failed != 0 {
			done <- failed
			return
		}
		var err error
		result, err = it()
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return result
}
