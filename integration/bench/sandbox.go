package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/kernel"
)

// sandbox is a fresh network namespace with nothing in it, and both ways to
// program it: ours and the bare one.
type sandbox struct {
	kernel *kernel.Kernel
	bare   *bare
	space  *os.File
}

// newSandbox makes a namespace, which must be closed.
func newSandbox() (*sandbox, error) {
	s := &sandbox{}
	made := make(chan error)
	go func() {
		// The thread is never given back: it ends with this goroutine and takes
		// the foreign namespace with it.
		runtime.LockOSThread()
		made <- s.enter()
	}()
	err := <-made
	if err == nil {
		s.kernel, err = kernel.Open(kernel.Config{NetNS: int(s.space.Fd())})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a network namespace: %w", err), s.close())
	}
	return s, nil
}

// enter takes the calling thread to a new namespace.
func (s *sandbox) enter() (err error) {
	if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if s.space, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return err
	}
	s.bare, err = newBare()
	return err
}

// close lets go of the namespace; the kernel removes it with its rules.
func (s *sandbox) close() error {
	var err error
	if s.kernel != nil {
		err = s.kernel.Close()
	}
	if s.bare != nil {
		err = errors.Join(err, s.bare.close())
	}
	if s.space != nil {
		err = errors.Join(err, s.space.Close())
	}
	return err
}

// inSandbox runs fn with a sandbox that is gone afterwards.
func inSandbox(fn func(*sandbox) error) error {
	s, err := newSandbox()
	if err != nil {
		return err
	}
	return errors.Join(fn(s), s.close())
}
