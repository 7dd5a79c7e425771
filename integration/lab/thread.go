package lab

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// errLeft says that a function ended its goroutine, as testing.T.FailNow does.
var errLeft = errors.New("the function did not return")

// aside runs enter and then fn on an operating system thread which nobody else
// uses meanwhile, and which gets its network namespace back afterwards. It runs
// in a goroutine of its own, so that a thread that cannot be brought back can be
// thrown away without taking the caller along.
func aside(enter, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errLeft
		defer func() { done <- err }()
		err = detour(enter, fn)
	}()
	return <-done
}

// detour leaves its goroutine locked to the thread if the thread is not where it
// was: the runtime ends such a thread with the goroutine.
func detour(enter, fn func() error) (err error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot be thrown away. As long as this goroutine keeps it,
		// the next one gets another.
		defer runtime.UnlockOSThread()
		return aside(enter, fn)
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
