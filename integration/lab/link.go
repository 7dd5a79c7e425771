package lab

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

type link struct {
	host *Host
	netlink.Link
}

// connect connects two hosts by a veth pair with the ends a and b.
func connect(one *Host, a string, other *Host, b string) (link, link, error) {
	veth := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: a},
		PeerName:      b,
		PeerNamespace: netlink.NsFd(other.ns.fd),
	}
	if err := one.nl.LinkAdd(veth); err != nil {
		return link{}, link{}, fmt.Errorf("create link %s of %s: %w", a, one.Name, err)
	}
	here, err := one.link(a)
	if err != nil {
		return link{}, link{}, err
	}
	there, err := other.link(b)
	return here, there, err
}

func (h *Host) link(name string) (link, error) {
	l, err := h.nl.LinkByName(name)
	if err != nil {
		return link{}, fmt.Errorf("find link %s of %s: %w", name, h.Name, err)
	}
	return link{h, l}, nil
}

func (l link) up(prefixes ...netip.Prefix) error {
	for _, p := range prefixes {
		addr := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			// Duplicate address detection takes a second, in which the address is useless.
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := l.host.nl.AddrAdd(l, addr); err != nil {
			return fmt.Errorf("add address %s to %s of %s: %w", p, l.Attrs().Name, l.host.Name, err)
		}
	}
	if err := l.host.nl.LinkSetUp(l); err != nil {
		return fmt.Errorf("set up %s of %s: %w", l.Attrs().Name, l.host.Name, err)
	}
	return nil
}

// route adds a route through the link: by the gateway via, or directly if via is
// invalid.
func (l link) route(to netip.Prefix, via netip.Addr) error {
	r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(to)}
	switch {
	case via.IsValid():
		r.Gw, r.Flags = via.AsSlice(), int(netlink.FLAG_ONLINK)
	case to.Addr().Is4():
		r.Scope = netlink.SCOPE_LINK
	}
	if err := l.host.nl.RouteReplace(r); err != nil {
		return fmt.Errorf("route %s by %s of %s: %w", to, l.Attrs().Name, l.host.Name, err)
	}
	return nil
}

// know adds a neighbour's addresses, as if it had been heard of some time ago. The nodes of a running
// cluster know those that they send packets to.
func (l link) know(neighbour link, addrs [2]netip.Addr) error {
	for _, a := range addrs {
		err := l.host.nl.NeighSet(&netlink.Neigh{
			LinkIndex: l.Attrs().Index, IP: a.AsSlice(), HardwareAddr: neighbour.Attrs().HardwareAddr, State: netlink.NUD_STALE,
		})
		if err != nil {
			return fmt.Errorf("add neighbour %s to %s of %s: %w", a, l.Attrs().Name, l.host.Name, err)
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
