package lab

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// errLeft is returned if a function ended its goroutine, as testing.T.FailNow does.
var errLeft = errors.New("the function did not return")

// onThread runs enter and then fn on an operating system thread that runs nothing
// else meanwhile, and that returns to its network namespace afterwards. It runs in a
// goroutine of its own: a thread that cannot return is discarded with its goroutine,
// and the caller continues.
func onThread(enter, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errLeft
		defer func() { done <- err }()
		err = switchThread(enter, fn)
	}()
	return <-done
}

// switchThread leaves its goroutine locked to the thread if the thread cannot return
// to its namespace: the runtime ends such a thread with the goroutine.
func switchThread(enter, fn func() error) (err error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot be discarded. While this goroutine holds it, the next
		// one gets another thread.
		defer runtime.UnlockOSThread()
		return onThread(enter, fn)
	}
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("find the thread's network namespace: %w", err)
	}
	defer func() {
		back := netns.Set(home)
		if back == nil {
			runtime.UnlockOSThread()
		} else {
			err = errors.Join(err, fmt.Errorf("return to the thread's network namespace: %w", back))
		}
		_ = home.Close()
	}()
	if err := enter(); err != nil {
		return err
	}
	return fn()
}
