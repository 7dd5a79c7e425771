package lab

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// linkTimeout is far more than links need to become ready.
const linkTimeout = time.Minute

var errNotReady = errors.New("not ready in time")

// await waits until the link carries packets and its IPv6 addresses work; prefixes are
// those given to [link.up]. Earlier packets would be lost, and a lost neighbour
// solicitation costs a second.
func (l link) await(prefixes ...netip.Prefix) error {
	deadline := time.Now().Add(linkTimeout)
	for {
		ready, err := l.ready(prefixes)
		if err == nil && !ready && time.Now().After(deadline) {
			err = errNotReady
		}
		if err != nil {
			return fmt.Errorf("wait for %s of %s: %w", l.Attrs().Name, l.host.Name, err)
		}
		if ready {
			return nil
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// ready reports whether the kernel has finished its background work after the link
// was set up. Since 6.9 (facd15dfd691), reading the state makes it enable
// transmission immediately.
func (l link) ready(prefixes []netip.Prefix) (bool, error) {
	now, err := l.host.nl.LinkByIndex(l.Attrs().Index)
	if err != nil || now.Attrs().OperState != netlink.OperUp {
		return false, err
	}
	return l.addressed(prefixes)
}

// addressed reports whether the link's IPv6 addresses, including the link-local one,
// have passed duplicate address detection. Even if it is disabled, it runs in the
// background, and only after it do the local route and the multicast group exist by
// which neighbours find the address.
func (l link) addressed(prefixes []netip.Prefix) (bool, error) {
	if len(prefixes) == 0 {
		return true, nil
	}
	filter := &netlink.Route{LinkIndex: l.Attrs().Index, Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL}
	mask := netlink.RT_FILTER_OIF | netlink.RT_FILTER_TABLE | netlink.RT_FILTER_TYPE
	routes, err := l.host.nl.RouteListFiltered(netlink.FAMILY_V6, filter, mask)
	if err != nil {
		return false, err
	}
	found := make(map[netip.Addr]bool)
	for _, r := range routes {
		a, _ := netip.AddrFromSlice(r.Dst.IP)
		found[a] = true
	}
	for _, p := range prefixes {
		if p.Addr().Is6() && !found[p.Addr()] {
			return false, nil
		}
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(found)), netip.Addr.IsLinkLocalUnicast), nil
}
