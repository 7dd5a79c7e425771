package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"

	"github.com/vishvananda/netlink"

	"kube-vmap/model"
)

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
