package sync

import (
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// NodePortAddresses says on which of the node's addresses node ports answer, as
// kube-proxy's nodePortAddresses does: each family by itself, and everywhere in a
// family for which nothing is said, even if something is for the other. So the
// zero value means every address.
//
// Link-local addresses are the node's like any. Little comes of it: the kernel
// passes nothing on that has a link-local source (ip6_forward in
// net/ipv6/ip6_output.c), so that only endpoints in the network of the node
// itself answer to neighbours who ask there.
type NodePortAddresses struct {
	// Primary has node ports answer on the node's primary address of each family
	// that has one.
	Primary bool
	// Prefixes have them answer on the addresses within, of either family. One of
	// length zero means all of its family. Node ports never answer on loopback
	// addresses; a prefix of those is good for saying that they are to answer
	// nowhere else.
	Prefixes []netip.Prefix
}

// All reports whether every address of a family serves node ports; node are the
// primary addresses, as [model.Node] has them.
func (n NodePortAddresses) All(f model.Family, node [len(model.Families)]netip.Addr) bool {
	limits := n.limits(f, node)
	return len(limits) == 0 || slices.ContainsFunc(limits, func(p netip.Prefix) bool { return p.Bits() == 0 })
}

// Select picks from the addresses of the node's interfaces those that serve
// node ports: sorted, each once. A primary address that no interface has is not
// among them.
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

// limits are the prefixes of a family outside of which node ports do not answer;
// none if there is no limit. A primary address in the loopback range counts as
// one that is not known.
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
