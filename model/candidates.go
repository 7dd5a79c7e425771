package model

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
)

// offer is what an EndpointSlice must have for a Service port: a port of its
// name and protocol, in its family.
type offer struct {
	port     string
	protocol Protocol
	family   Family
}

// numbers ranges over the numbers that the port has in the slice: none if it is
// not offered there.
func (o offer) numbers(s *EndpointSlice) iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		if s.Family != o.family {
			return
		}
		for _, p := range s.Ports {
			if p.Name == o.port && p.Protocol == o.protocol && !yield(p.Port) {
				return
			}
		}
	}
}

// candidate is one endpoint at one port number, and what decides whether it
// serves. Services have up to hundreds of thousands, so that it is small: what
// it stands for is found by its place.
type candidate struct {
	slice, index uint32 // of the endpoint; see places
	number       uint16 // of the port
	// traits are none where another candidate of the same address and number
	// counts. Nobody wishes for a candidate without traits.
	traits traits
}

// candidates lists who makes the offer as node n sees them, sorted.
//
// The same address may stand in several slices while an endpoint moves between
// them, and a terminating pod's address may already belong to a new pod: the
// endpoint that is not terminating counts.
func (p places) candidates(o offer, n *Node) []candidate {
	type found struct { // with the address, which most comparisons are about
		at netip.AddrPort
		candidate
	}
	count := 0
	for i := range p {
		for range o.numbers(&p[i]) {
			count += len(p[i].Endpoints)
		}
	}
	all := make([]found, 0, count)
	for i := range p {
		for number := range o.numbers(&p[i]) {
			for k := range p[i].Endpoints {
				c := candidate{uint32(i), uint32(k), number, n.traitsOf(&p[i].Endpoints[k])}
				all = append(all, found{p.addr(c), c})
			}
		}
	}
	slices.SortFunc(all, func(a, b found) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return p.compareTwins(a.candidate, b.candidate)
	})
	out := make([]candidate, len(all))
	for i := range all {
		out[i] = all[i].candidate
		if i > 0 && all[i].at == all[i-1].at {
			out[i].traits = 0
		}
	}
	return out
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
