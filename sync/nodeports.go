package sync

import (
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// NodePortAddresses selects the addresses of the node that serve node ports, as
// kube-proxy's nodePortAddresses does: each family on its own, and all addresses of a
// family without a selection. So the zero value means every address.
//
// Link-local addresses count. But the kernel forwards no packets with a link-local source
// (ip6_forward in net/ipv6/ip6_output.c), so neighbours who use them only reach endpoints
// in the node's own network.
type NodePortAddresses struct {
	// Primary selects the node's primary address of each family that has one.
	Primary bool
	// Prefixes selects the addresses in them. A prefix of length zero selects all of its
	// family. Node ports are never served on loopback addresses; a loopback prefix
	// selects none.
	Prefixes []netip.Prefix
}

// All reports whether every address of a family serves node ports; node has the primary
// addresses, as in [model.Node].
func (n NodePortAddresses) All(f model.Family, node [len(model.Families)]netip.Addr) bool {
	limits := n.limits(f, node)
	return len(limits) == 0 || slices.ContainsFunc(limits, func(p netip.Prefix) bool { return p.Bits() == 0 })
}

// Select returns the interfaces' addresses that serve node ports, sorted, each once. It
// does not return a primary address that no interface has.
func (n NodePortAddresses) Select(interfaces []netip.Addr, node [len(model.Families)]netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, f := range model.Families {
		all, limits := n.All(f, node), n.limits(f, node)
		for _, a := range interfaces {
			within := func(p netip.Prefix) bool { return p.Contains(a) }
			if model.FamilyOf(a) == f && !a.IsLoopback() && (all || slices.ContainsFunc(limits, within)) {
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// limits returns the prefixes of a family that node ports are limited to, empty without a
// limit. A primary address in the loopback range counts as unknown.
func (n NodePortAddresses) limits(f model.Family, node [len(model.Families)]netip.Addr) []netip.Prefix {
	var out []netip.Prefix
	if own := node[f]; n.Primary && own.IsValid() && !own.IsLoopback() {
		out = append(out, netip.PrefixFrom(own, own.BitLen()))
	}
	for _, p := range n.Prefixes {
		if model.FamilyOf(p.Addr()) == f {
			out = append(out, p)
		}
	}
	return out
}
