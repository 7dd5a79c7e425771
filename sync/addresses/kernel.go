package addresses

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// quietPeriod is how long there must be no notification before addresses are listed,
	// because interfaces often get several at a time.
	quietPeriod = 20 * time.Millisecond
	// maxSettle is how long to wait for that at most.
	maxSettle = 200 * time.Millisecond
)

// kernel is a feed over rtnetlink.
type kernel struct {
	notifications *nl.NetlinkSocket
	lists         *netlink.Handle
}

// openKernel subscribes to changes in a network namespace.
func openKernel(netNS int) (*kernel, error) {
	ns := netns.None() // that of the calling thread
	if netNS != 0 {
		ns = netns.NsHandle(netNS)
	}
	notifications, err := nl.SubscribeAt(ns, netns.None(), unix.NETLINK_ROUTE, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return nil, fmt.Errorf("subscribe to address changes: %w", err)
	}
	lists, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		notifications.Close()
		return nil, fmt.Errorf("open a routing socket: %w", err)
	}
	return &kernel{notifications, lists}, nil
}

func (k *kernel) close() {
	k.notifications.Close()
	k.lists.Close()
}

// list implements [feed]. It repeats a list that was interrupted by a change, which may
// lack an address.
func (k *kernel) list() ([]netip.Addr, error) {
	const attempts = 10
	var found []netlink.Addr
	var err error = netlink.ErrDumpInterrupted
	for i := 0; i < attempts && errors.Is(err, netlink.ErrDumpInterrupted); i++ {
		found, err = k.lists.AddrList(nil, netlink.FAMILY_ALL)
	}
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	out := make([]netip.Addr, 0, len(found))
	for i := range found {
		if addr, ok := usableAddr(&found[i]); ok {
			out = append(out, addr)
		}
	}
	return out, nil
}

// usableAddr returns the address, and whether the node answers to it.
func usableAddr(a *netlink.Addr) (netip.Addr, bool) {
	if a.IPNet == nil {
		return netip.Addr{}, false
	}
	addr, ok := netip.AddrFromSlice(a.IP)
	addr = addr.Unmap()
	waiting := a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && a.Flags&unix.IFA_F_OPTIMISTIC == 0
	return addr, ok && !waiting && !addr.IsLoopback()
}

// wait implements [feed].
func (k *kernel) wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, k.notifications.Close)
	defer stop()
	if err := k.receive(0); err != nil {
		return fmt.Errorf("wait for address changes: %w", err)
	}
	for first := time.Now(); time.Since(first) < maxSettle; {
		err := k.receive(quietPeriod)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return fmt.Errorf("wait for address changes: %w", err)
		}
	}
	return nil
}

// receive waits for a notification. If the limit is not zero and has passed, the error is
// EAGAIN. An overflow of the socket counts as a notification.
func (k *kernel) receive(limit time.Duration) error {
	timeout := unix.NsecToTimeval(limit.Nanoseconds())
	if err := k.notifications.SetReceiveTimeout(&timeout); err != nil {
		return err
	}
	_, _, err := k.notifications.Receive()
	if errors.Is(err, unix.ENOBUFS) {
		return nil
	}
	return err
}
