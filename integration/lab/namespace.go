package lab

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	stdsync "sync"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespace is a network namespace. A file descriptor keeps it alive. The kernel removes it,
// with its links, when its last socket and process are gone.
type namespace struct{ fd netns.NsHandle }

// newNamespace creates a network namespace. The caller must close it.
func newNamespace() (*namespace, error) {
	ns := &namespace{fd: netns.None()}
	err := onThread(
		func() error { return unix.Unshare(unix.CLONE_NEWNET) },
		func() (err error) { ns.fd, err = netns.Get(); return err },
	)
	if err != nil {
		return nil, fmt.Errorf("create network namespace: %w", err)
	}
	return ns, nil
}

// do runs fn on a thread in the namespace.
func (n *namespace) do(fn func() error) error {
	return onThread(func() error {
		if err := netns.Set(n.fd); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return nil
	}, fn)
}

func (n *namespace) close() error { return n.fd.Close() }

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

// ErrClosed is returned if the lab, or the part of it in question, is closed.
var ErrClosed = errors.New("lab is closed")

// cleanup is a stack of functions that undo something. Its zero value is ready.
type cleanup struct {
	mu     stdsync.Mutex
	undo   []func() error
	closed bool
}

// add pushes a function and returns one that calls it immediately; both call it only once.
// After close, add calls it itself and returns ErrClosed.
func (c *cleanup) add(run func() error) (now func() error, err error) {
	now = stdsync.OnceValue(run)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.Join(ErrClosed, now())
	}
	c.undo = append(c.undo, now)
	return now, nil
}

// close calls all functions, the last one first. A second call does nothing.
func (c *cleanup) close() error {
	c.mu.Lock()
	undo := c.undo
	c.undo, c.closed = nil, true
	c.mu.Unlock()
	var errs []error
	for _, run := range slices.Backward(undo) {
		errs = append(errs, run())
	}
	return errors.Join(errs...)
}

// retry repeats a call on the socket while it would block or was interrupted, and
// waits for an event before each repetition.
func (s *socket) retry(event int16, deadline time.Time, call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return n, err
		}
		if err := s.wait(event, deadline); err != nil {
			return 0, err
		}
	}
}

// wait waits until the socket has an event or an error. After the deadline the
// error is os.ErrDeadlineExceeded.
func (s *socket) wait(event int16, deadline time.Time) error {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: event}}
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		timeout := unix.NsecToTimespec(int64(left))
		n, err := unix.Ppoll(fds, &timeout, nil)
		if err != nil && err != unix.EINTR {
			return err
		}
		if n > 0 {
			return nil
		}
	}
}
