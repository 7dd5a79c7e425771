package socket

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
)

// In calls a function in a network namespace, given by its file descriptor; zero means that
// of the calling thread. Files below /proc and raw sockets are read in it.
func In(netNS int, fn func() error) error {
	if netNS == 0 {
		return fn()
	}
	done := make(chan error)
	go func() { done <- onThread(netNS, fn) }()
	return <-done
}

// onThread calls fn in a network namespace, on a thread that then returns to its own. If it
// cannot, it ends with the goroutine. Threads do not end otherwise, because that would kill
// processes that they have started with PR_SET_PDEATHSIG.
func onThread(netNS int, fn func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		return fmt.Errorf("find the thread's network namespace: %w", err)
	}
	defer func() {
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		_ = home.Close()
	}()
	if err := netns.Set(netns.NsHandle(netNS)); err != nil {
		return fmt.Errorf("enter a network namespace: %w", err)
	}
	return fn()
}
