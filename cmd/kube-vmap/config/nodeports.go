package config

import (
	"fmt"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// Words in nodePortAddresses.
const (
	// primary is the node's own address of each family.
	primary = "primary"
	// localhost is the loopback addresses, as in kube-proxy 1.37 (KEP-6032).
	localhost = "localhost"
)

// isWord reports whether an item of nodePortAddresses is a word.
func isWord(item string) bool { return item == primary || item == localhost }

// loopback returns the loopback ranges.
func loopback() []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8),
		netip.PrefixFrom(netip.IPv6Loopback(), 128),
	}
}

// NodePorts returns the addresses of the node on which NodePorts answer. localhost is
// included as its ranges: alone, it excludes all addresses of the node's interfaces.
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

// LocalhostNodePorts reports whether NodePorts of TCP answer on 127.0.0.1 and ::1.
func (c *Config) LocalhostNodePorts() bool {
	return slices.Contains(c.Proxy.NodePortAddresses, localhost)
}

// NodeIPs returns addresses that replace the node's primary ones in its Node object:
// bindAddress, in its family, unless it is unspecified. Nothing listens on them.
func (c *Config) NodeIPs() [len(model.Families)]netip.Addr {
	var out [len(model.Families)]netip.Addr
	if addr, err := parseAddr(c.Proxy.BindAddress); err == nil && !addr.IsUnspecified() {
		out[model.FamilyOf(addr)] = addr
	}
	return out
}

// nodePortWarnings returns warnings about addresses on which NodePorts answer or do not
// answer unexpectedly.
func (c *Config) nodePortWarnings() []string {
	var out []string
	name := c.name("nodePortAddresses")
	for _, item := range c.Proxy.NodePortAddresses {
		if r, err := parseRange(item); err == nil && r.Addr().IsLoopback() {
			out = append(out, fmt.Sprintf("%s: NodePorts do not answer on %s; with the word localhost, those of TCP answer on 127.0.0.1 and ::1", name, r))
		}
	}
	n, pods := c.NodePorts(), c.ClusterCIDRs()
	for _, f := range model.Families {
		limited := func(r netip.Prefix) bool { return model.FamilyOf(r.Addr()) == f }
		if pods[f].IsValid() && !n.Primary && !slices.ContainsFunc(n.Prefixes, limited) {
			out = append(out, fmt.Sprintf("%s: has no range of family %s, so NodePorts answer on all such addresses of the node", name, f))
		}
	}
	return out
}
