// Package rtnetlink opens sockets of rtnetlink. A [Follower] follows the interfaces or addresses of a
// network namespace:
//
//	Follow --> List --> use it --> Wait for a notification, until quiet
//	             ^                                  |
//	             +----------------------------------+
//
// The content of notifications is not used; each only causes a list. So no change is lost: not
// before the first list, which comes after the subscription; not when the socket overflows,
// which is another notification; and not when the socket breaks, because a new [Follower]
// starts with a list.
package rtnetlink

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
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
// zero means the calling thread's. The caller must close it.
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

// FollowAddresses follows the addresses of the node, except loopback addresses, which only the
// node itself can reach, each with the length of the prefix that is on its link. They are in
// any order, and addresses of several interfaces are listed more than once. For netNS see
// [Open].
func FollowAddresses(netNS int) (*Follower[netip.Prefix], error) {
	return follow(netNS, kind[netip.Prefix]{
		name: "addresses", groups: []uint{unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR},
		quiet: 20 * time.Millisecond, // interfaces often get several at a time
		list:  listAddresses,
	})
}

func listAddresses(h *netlink.Handle) ([]netip.Prefix, error) {
	found, err := h.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	out := make([]netip.Prefix, 0, len(found))
	for i := range found {
		if addr, ok := usableAddr(&found[i]); ok {
			out = append(out, addr)
		}
	}
	return out, nil
}

func usableAddr(a *netlink.Addr) (netip.Prefix, bool) {
	if a.IPNet == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(a.IP)
	addr = addr.Unmap()
	bits, _ := a.Mask.Size()
	waiting := a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && a.Flags&unix.IFA_F_OPTIMISTIC == 0
	return netip.PrefixFrom(addr, bits), ok && !waiting && !addr.IsLoopback()
}

// FollowInterfaces follows the names of all interfaces but loopbacks, sorted. For netNS see [Open].
func FollowInterfaces(netNS int) (*Follower[string], error) {
	return follow(netNS, kind[string]{
		name: "interfaces", groups: []uint{unix.RTNLGRP_LINK},
		quiet: 50 * time.Millisecond, // one causes several, and pods often come in groups
		list:  listInterfaces,
	})
}

func listInterfaces(h *netlink.Handle) ([]string, error) {
	links, err := h.LinkList()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, l := range links {
		if a := l.Attrs(); a.RawFlags&unix.IFF_LOOPBACK == 0 {
			names = append(names, a.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
