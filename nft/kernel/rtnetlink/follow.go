package rtnetlink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// A Follower lists objects of a network namespace, and notices all changes since it was
// opened. It must be closed.
type Follower[T any] struct {
	kind[T]
	notifications *nl.NetlinkSocket
	requests      *netlink.Handle
}

// A kind is a kind of objects to follow.
type kind[T any] struct {
	name   string // in errors
	groups []uint // of notifications about changes (RTNLGRP_*)
	// quiet is how long there must be no notification before objects are listed, because
	// several often change together.
	quiet time.Duration
	list  func(*netlink.Handle) ([]T, error)
}

// maxSettle limits the wait for quiet, as a multiple of the quiet period.
const maxSettle = 10

// follow subscribes to changes. For netNS see [Open].
func follow[T any](netNS int, k kind[T]) (*Follower[T], error) {
	notifications, err := nl.SubscribeAt(namespace(netNS), netns.None(), unix.NETLINK_ROUTE, k.groups...)
	if err != nil {
		return nil, fmt.Errorf("subscribe to changes of %s: %w", k.name, err)
	}
	requests, err := Open(netNS)
	if err != nil {
		notifications.Close()
		return nil, err
	}
	return &Follower[T]{k, notifications, requests}, nil
}

// Close ends the subscription.
func (f *Follower[T]) Close() {
	f.notifications.Close()
	f.requests.Close()
}

// List returns all objects. It repeats a list that was interrupted by a change, which may lack
// an object.
func (f *Follower[T]) List() ([]T, error) {
	const attempts = 10
	var all []T
	var err error = netlink.ErrDumpInterrupted
	for i := 0; i < attempts && errors.Is(err, netlink.ErrDumpInterrupted); i++ {
		all, err = f.list(f.requests)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", f.name, err)
	}
	return all, nil
}

// Wait returns after a change, once there were no more for a moment, or with an error if ctx
// ends first, which also ends the subscription.
func (f *Follower[T]) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, f.notifications.Close)
	defer stop()
	err := f.receive(0)
	for first := time.Now(); err == nil && time.Since(first) < maxSettle*f.quiet; {
		err = f.receive(f.quiet)
	}
	switch {
	case ctx.Err() != nil: // a closed socket has an error of its own
		return ctx.Err()
	case err == nil || errors.Is(err, unix.EAGAIN):
		return nil
	}
	return fmt.Errorf("wait for changes of %s: %w", f.name, err)
}

// receive waits for a notification. If the limit is not zero and has passed, the error is
// EAGAIN. An overflow of the socket counts as a notification.
func (f *Follower[T]) receive(limit time.Duration) error {
	timeout := unix.NsecToTimeval(limit.Nanoseconds())
	if err := f.notifications.SetReceiveTimeout(&timeout); err != nil {
		return err
	}
	_, _, err := f.notifications.Receive()
	if errors.Is(err, unix.ENOBUFS) {
		return nil
	}
	return err
}

// Open opens a socket for requests. The network namespace is given by its file descriptor;
// zero means that of the calling thread. The caller must close it.
func Open(netNS int) (*netlink.Handle, error) {
	h, err := netlink.NewHandleAt(namespace(netNS), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open an rtnetlink socket: %w", err)
	}
	return h, nil
}

// namespace returns a network namespace as package netlink names it.
func namespace(netNS int) netns.NsHandle {
	if netNS == 0 {
		return netns.None()
	}
	return netns.NsHandle(netNS)
}
