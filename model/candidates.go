package model

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
)

// candidates are all endpoints that offer a port: sorted by address, each
// address and port once. There may be a hundred thousand, so that choosing
// among them copies none but the chosen.
type candidates []candidate

// candidate is one address and port that could serve, and what decides it.
type candidate struct {
	addr     netip.AddrPort
	traits   traits
	endpoint *Endpoint
}

// traits are what there is to know about a candidate on one node, a bit each.
type traits uint8

const (
	isReady traits = 1 << iota
	isServing
	isTerminating
	isLocal // runs on the node
	hintedForNode
	hintedForZone
	withoutNodeHint // for any node
	withoutZoneHint // for any zone

	isDraining = isServing | isTerminating
)

// has reports whether the candidate has all the wanted traits.
func (c *candidate) has(want traits) bool { return c.traits&want == want }

// meets reports whether the candidate has all traits of one of the wishes.
func (c *candidate) meets(wishes []traits) bool { return slices.ContainsFunc(wishes, c.has) }

// candidatesFor lists the endpoints that offer the port in family f as node n
// sees them.
//
// The same address may stand in several slices while an endpoint moves between
// them, and a terminating pod's address may already belong to a new pod: the
// endpoint that is not terminating counts.
func candidatesFor(port ServicePortName, f Family, from []Slice, n Node) candidates {
	count := 0
	for s := range offers(port, f, from) {
		count += len(s.Endpoints)
	}
	all := make(candidates, 0, count)
	for s, number := range offers(port, f, from) {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			all = append(all, candidate{netip.AddrPortFrom(e.Addr, number), n.traitsOf(e), e})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		if c := a.addr.Compare(b.addr); c != 0 {
			return c
		}
		return compareDuplicates(a.endpoint, b.endpoint)
	})
	return slices.CompactFunc(all, func(a, b candidate) bool { return a.addr == b.addr })
}

// offers ranges over the slices that offer the port in family f, each with the
// port's number there.
func offers(port ServicePortName, f Family, from []Slice) iter.Seq2[*Slice, uint16] {
	return func(yield func(*Slice, uint16) bool) {
		for i := range from {
			s := &from[i]
			if s.Family != f {
				continue
			}
			for _, p := range s.Ports {
				if p.Name == port.Port && p.Protocol == port.Protocol && !yield(s, p.Port) {
					return
				}
			}
		}
	}
}

// traitsOf is what node n sees in the endpoint.
func (n Node) traitsOf(e *Endpoint) traits {
	return isReady.when(e.Ready) |
		isServing.when(e.Serving) |
		isTerminating.when(e.Terminating) |
		isLocal.when(n.hosts(e)) |
		hintedForNode.when(e.NodeHints.Has(n.Name)) |
		hintedForZone.when(e.ZoneHints.Has(n.Zone)) |
		withoutNodeHint.when(e.NodeHints == "") |
		withoutZoneHint.when(e.ZoneHints == "")
}

// when is t if it holds, or else nothing.
func (t traits) when(holds bool) traits {
	if holds {
		return t
	}
	return 0
}

// compareDuplicates orders endpoints of one address so that the one to believe
// comes first, whatever order the slices came in. It asks no node, so that all
// believe the same.
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
