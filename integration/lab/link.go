package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
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

// BridgeName is the name of a node's interface towards its pods with
// [Options.Bridge]. Rules see it as input and output interface.
const BridgeName = "cni0"

// bridgeSysctls make bridged packets pass the IP hooks.
var bridgeSysctls = []sysctl{
	{"bridge/bridge-nf-call-iptables", "1"},
	{"bridge/bridge-nf-call-ip6tables", "1"},
}

// MissingBridge is [Missing] for labs with [Options.Bridge]. It loads the kernel
// module br_netfilter, which is not loaded on demand.
func MissingBridge() error {
	const settings = "/proc/sys/net/bridge"
	if _, err := os.Stat(settings); err == nil {
		return nil
	}
	out, err := exec.Command("modprobe", "-q", "--", "br_netfilter").CombinedOutput()
	if err != nil {
		return fmt.Errorf("the lab cannot load br_netfilter: %w: %s", err, out)
	}
	if _, err := os.Stat(settings); err != nil {
		return fmt.Errorf("the lab needs br_netfilter: %w", err)
	}
	return nil
}

// addBridge creates the bridge that the node's pods are attached to. It has the
// node's address towards them.
func (n *Node) addBridge() error {
	if err := n.set(bridgeSysctls); err != nil {
		return err
	}
	bridge, err := n.newBridge(BridgeName)
	if err != nil {
		return err
	}
	n.bridge = &bridge
	return bridge.up(n.inRange(n.Gateway)...)
}

func (h *Host) newBridge(name string) (link, error) {
	snooping := false                                                                        // the lab has no querier, and IPv6 needs its multicast immediately
	attrs := netlink.LinkAttrs{Name: name, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}} // which ports do not change
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
	if err := h.nl.LinkAdd(bridge); err != nil {
		return link{}, fmt.Errorf("create bridge %s of %s: %w", name, h.Name, err)
	}
	return link{h, bridge}, nil
}

// inRange returns an address of each family with the prefix length of the node's pod
// range.
func (n *Node) inRange(addr func(model.Family) netip.Addr) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, f := range model.Families {
		prefixes = append(prefixes, netip.PrefixFrom(addr(f), n.ranges[f].Bits()))
	}
	return prefixes
}

// attachTo connects a pod to the bridge of its node, as the CNI plugin bridge does
// with hairpinMode: packets between pods bypass the node's routing.
func (p *Pod) attachTo(bridge link) error {
	port, eth0, err := connect(p.node.Host, p.Link, p.Host, "eth0")
	if err != nil {
		return err
	}
	nl, own := p.node.nl, p.node.inRange(p.Addr)
	if err := errors.Join(nl.LinkSetMaster(port, bridge), nl.LinkSetHairpin(port, true)); err != nil {
		return fmt.Errorf("attach %s to bridge %s: %w", p.Name, BridgeName, err)
	}
	if err := errors.Join(port.up(), eth0.up(own...)); err != nil {
		return err
	}
	for _, f := range model.Families {
		if err := eth0.route(defaultRoute(p.Addr(f)), p.node.Gateway(f)); err != nil {
			return err
		}
	}
	return errors.Join(
		port.await(), eth0.await(own...), bridge.await(p.node.inRange(p.node.Gateway)...), bridge.know(eth0, p.addrs),
	)
}
