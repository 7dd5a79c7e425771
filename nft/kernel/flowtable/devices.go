package flowtable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// quietPeriod is how long there must be no notification before interfaces are listed:
	// an interface causes several, and pods often come in groups.
	quietPeriod = 50 * time.Millisecond
	// maxSettle is how long to wait for that at most.
	maxSettle = 500 * time.Millisecond
)

// Devices follows the interfaces of a network namespace over rtnetlink. Linux before 6.17
// has no prefixes of names in flowtables (NFTA_DEVICE_PREFIX).
type Devices struct {
	notifications *nl.NetlinkSocket
	lists         *netlink.Handle
}

// OpenDevices subscribes to changes. The network namespace is given by its file descriptor;
// zero means that of the calling thread. The caller must close it.
func OpenDevices(netNS int) (*Devices, error) {
	ns := netns.None()
	if netNS != 0 {
		ns = netns.NsHandle(netNS)
	}
	notifications, err := nl.SubscribeAt(ns, netns.None(), unix.NETLINK_ROUTE, unix.RTNLGRP_LINK)
	if err != nil {
		return nil, fmt.Errorf("subscribe to changes of interfaces: %w", err)
	}
	lists, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		notifications.Close()
		return nil, fmt.Errorf("open a routing socket: %w", err)
	}
	return &Devices{notifications, lists}, nil
}

// Close ends the subscription.
func (d *Devices) Close() {
	d.notifications.Close()
	d.lists.Close()
}

// List returns the names of all interfaces but loopbacks, sorted. It repeats a list that was
// interrupted by a change.
func (d *Devices) List() ([]string, error) {
	const attempts = 10
	var links []netlink.Link
	var err error = netlink.ErrDumpInterrupted
	for i := 0; i < attempts && errors.Is(err, netlink.ErrDumpInterrupted); i++ {
		links, err = d.lists.LinkList()
	}
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
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

// Wait returns after a change, once there were no more for a moment, or with an error if ctx
// ends first; Devices is closed then. The content of notifications is not used, so that none
// that is lost matters: an overflow of the socket is another notification.
func (d *Devices) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, d.notifications.Close)
	defer stop()
	if err := d.receive(0); err != nil {
		return fmt.Errorf("wait for changes of interfaces: %w", err)
	}
	for first := time.Now(); time.Since(first) < maxSettle; {
		err := d.receive(quietPeriod)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return fmt.Errorf("wait for changes of interfaces: %w", err)
		}
	}
	return nil
}

// receive waits for a notification. If the limit is not zero and has passed, the error is
// EAGAIN.
func (d *Devices) receive(limit time.Duration) error {
	timeout := unix.NsecToTimeval(limit.Nanoseconds())
	if err := d.notifications.SetReceiveTimeout(&timeout); err != nil {
		return err
	}
	_, _, err := d.notifications.Receive()
	if errors.Is(err, unix.ENOBUFS) {
		return nil
	}
	return err
}
