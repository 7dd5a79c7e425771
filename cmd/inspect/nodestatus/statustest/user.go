// Package statustest runs loops for documents, and functions of tests as other users.
package statustest

import (
	"runtime"
	"syscall"
	"testing"
)

// AsUser runs a function as the user with this uid, and returns its result: a thread of its
// own becomes that user and ends with the function, while the process stays root's. It needs
// root; an error ends the test.
func AsUser[T any](t *testing.T, uid int, it func() (T, error)) T {
	t.Helper()
	var result T
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
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
