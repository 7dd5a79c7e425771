package model

import (
	"cmp"
	"net/netip"
	"slices"
)

// Selection is which endpoints serve one Service port on one node.
type Selection struct {
	// Cluster serves traffic under [PolicyCluster], Local under [PolicyLocal].
	// Both are sorted and without duplicates.
	Cluster, Local []netip.AddrPort
	// Anywhere tells that some endpoint could serve on some node, so that an
	// empty list here means "not on this node" rather than "nobody".
	Anywhere bool
	// OnNode lists the addresses of those endpoints of Cluster and Local that
	// run on this node; sorted and without duplicates.
	OnNode []netip.Addr
}

// candidate is one address and port that could serve, and what decides it.
type candidate struct {
	addr     netip.AddrPort
	endpoint *Endpoint
}

// Select decides which endpoints of family f in these slices serve the port on
// node n.
//
// Ready endpoints serve, those that hints prefer for this node first (KEP-2433,
// KEP-4444). If none is ready, endpoints that are terminating but still serving
// take over (KEP-1669), whatever the hints. The local list is decided by itself
// and knows no hints.
func Select(port ServicePortName, f Family, from []Slice, n Node) Selection {
	all := candidates(port, f, from)
	ready := filter(all, func(c candidate) bool { return c.endpoint.Ready })
	draining := filter(all, func(c candidate) bool { return c.endpoint.Serving && c.endpoint.Terminating })
	local := func(c candidate) bool { return n.hosts(c.endpoint) }

	cluster := preferred(ready, n)
	if len(cluster) == 0 {
		cluster = draining
	}
	onNode := filter(ready, local)
	if len(onNode) == 0 {
		onNode = filter(draining, local)
	}
	return Selection{
		Cluster:  addresses(cluster),
		Local:    addresses(onNode),
		Anywhere: len(ready)+len(draining) > 0,
		OnNode:   hosts(filter(cluster, local), onNode),
	}
}

// candidates lists the endpoints that offer the port, sorted by address, each
// address and port once.
//
// The same address may stand in several slices while an endpoint moves between
// them, and a terminating pod's address may already belong to a new pod: the
// endpoint that is not terminating counts.
func candidates(port ServicePortName, f Family, all []Slice) []candidate {
	var found []candidate
	for i := range all {
		s := &all[i]
		if s.Family != f {
			continue
		}
		for _, p := range s.Ports {
			if p.Name != port.Port || p.Protocol != port.Protocol {
				continue
			}
			for j := range s.Endpoints {
				e := &s.Endpoints[j]
				found = append(found, candidate{netip.AddrPortFrom(e.Addr, p.Port), e})
			}
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		if c := a.addr.Compare(b.addr); c != 0 {
			return c
		}
		return compareDuplicates(a.endpoint, b.endpoint)
	})
	return slices.CompactFunc(found, func(a, b candidate) bool { return a.addr == b.addr })
}

// compareDuplicates orders endpoints of one address so that the one to believe
// comes first, whatever order the slices came in.
func compareDuplicates(a, b *Endpoint) int {
	return cmp.Or(
		firstIf(!a.Terminating, !b.Terminating),
		firstIf(a.Ready, b.Ready),
		firstIf(a.Serving, b.Serving),
		cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.ZoneHints, b.ZoneHints),
		cmp.Compare(a.NodeHints, b.NodeHints),
	)
}

// firstIf orders what has a property before what has not.
func firstIf(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// preferred narrows ready endpoints to those hinted for the node, or else for
// its zone. Hints count only if every ready endpoint has them and one names
// this node or zone: an incomplete set of hints would overload whoever has one.
func preferred(ready []candidate, n Node) []candidate {
	for _, hint := range []struct {
		name string
		of   func(candidate) NameSet
	}{
		{n.Name, func(c candidate) NameSet { return c.endpoint.NodeHints }},
		{n.Zone, func(c candidate) NameSet { return c.endpoint.ZoneHints }},
	} {
		if slices.ContainsFunc(ready, func(c candidate) bool { return hint.of(c) == "" }) {
			continue
		}
		hinted := filter(ready, func(c candidate) bool { return hint.of(c).Has(hint.name) })
		if len(hinted) > 0 {
			return hinted
		}
	}
	return ready
}

func filter(in []candidate, keep func(candidate) bool) []candidate {
	var out []candidate
	for _, c := range in {
		if keep(c) {
			out = append(out, c)
		}
	}
	return out
}

func addresses(in []candidate) []netip.AddrPort {
	out := make([]netip.AddrPort, len(in))
	for i, c := range in {
		out[i] = c.addr
	}
	return out
}

// hosts lists the addresses without ports of all the candidates.
func hosts(lists ...[]candidate) []netip.Addr {
	var out []netip.Addr
	for _, list := range lists {
		for _, c := range list {
			out = append(out, c.addr.Addr())
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}
