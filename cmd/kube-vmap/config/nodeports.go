package config

import (
	"fmt"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// The words that nodePortAddresses may have among its ranges.
const (
	// primary stands for the node's own address of each family.
	primary = "primary"
	// localhost stands for the loopback addresses, as of kube-proxy 1.37 (KEP-6032).
	localhost = "localhost"
)

// isWord tells whether an item of nodePortAddresses is no range.
func isWord(item string) bool { return item == primary || item == localhost }

// loopback are the ranges of addresses that are in every node.
func loopback() []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8),
		netip.PrefixFrom(netip.IPv6Loopback(), 128),
	}
}

// NodePorts says on which of the node's addresses NodePorts answer. The word
// localhost is in it as the ranges that it stands for: where nothing but that is
// said, they answer on no address of the node's interfaces.
func (c *Config) NodePorts() sync.NodePortAddresses {
	var out sync.NodePortAddresses
	for _, item := range c.Proxy.NodePortAddresses {
		switch item {
		case primary:
			out.Primary = true
		case localhost:
			out.Prefixes = append(out.Prefixes, loopback()...)
		default:
			if r, err := parseRange(item); err == nil {
				out.Prefixes = append(out.Prefixes, r)
			}
		}
	}
	return out
}

// LocalhostNodePorts tells whether NodePorts of TCP answer on 127.0.0.1 and ::1
// too, to programs of the node.
func (c *Config) LocalhostNodePorts() bool {
	return slices.Contains(c.Proxy.NodePortAddresses, localhost)
}

// NodeIPs are what to take for the node's primary addresses in place of what its
// Node object says: bindAddress, in its family, unless that is unspecified.
// Invalid where the Node is to be believed. Nothing listens on them.
func (c *Config) NodeIPs() [len(model.Families)]netip.Addr {
	var out [len(model.Families)]netip.Addr
	if addr, err := parseAddr(c.Proxy.BindAddress); err == nil && !addr.IsUnspecified() {
		out[model.FamilyOf(addr)] = addr
	}
	return out
}

// nodePortWarnings are about addresses on which NodePorts answer though nobody may
// want it, or do not though somebody may.
func (c *Config) nodePortWarnings() []string {
	var out []string
	name := c.name("nodePortAddresses")
	for _, item := range c.Proxy.NodePortAddresses {
		if r, err := parseRange(item); err == nil && r.Addr().IsLoopback() {
			out = append(out, fmt.Sprintf("%s: NodePorts do not answer on %s; the word localhost has those of TCP answer on 127.0.0.1 and ::1", name, r))
		}
	}
	n, pods := c.NodePorts(), c.ClusterCIDRs()
	for _, f := range model.Families {
		limited := func(r netip.Prefix) bool { return model.FamilyOf(r.Addr()) == f }
		if pods[f].IsValid() && !n.Primary && !slices.ContainsFunc(n.Prefixes, limited) {
			out = append(out, fmt.Sprintf("%s: has no range of family %s, so that NodePorts answer on all such addresses of the node", name, f))
		}
	}
	return out
}
