package model

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
)

// portKey is what an EndpointSlice must have to belong to a Service port: the family,
// and a port of this name and protocol.
type portKey struct {
	port     string
	protocol Protocol
	family   Family
}

// portNumbers ranges over the numbers of the port in the slice, if the slice has the
// port.
func (k portKey) portNumbers(s *EndpointSlice) iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		if s.Family != k.family {
			return
		}
		for _, p := range s.Ports {
			if p.Name == k.port && p.Protocol == k.protocol && !yield(p.Port) {
				return
			}
		}
	}
}

func (k portKey) offeredBy(s *EndpointSlice) bool {
	for range k.portNumbers(s) {
		return true
	}
	return false
}

// candidate is one endpoint with one port number, and the traits that decide whether
// it serves. It is small, because a Service has up to hundreds of thousands of them:
// the endpoint is found by its position in [endpointSlices].
type candidate struct {
	slice, index uint32 // position of the endpoint
	number       uint16 // of the port
	// traits are zero if another candidate with the same address and number is used
	// instead. No list includes a candidate without traits.
	traits traits
}

// endpointSlices are the slices of one Service. Methods that take a list of candidates
// need it sorted by compare.
type endpointSlices []EndpointSlice

func (s endpointSlices) endpoint(c candidate) *Endpoint { return &s[c.slice].Endpoints[c.index] }

// weighted reports whether the slices have different weights.
func (s endpointSlices) weighted() bool {
	var first uint16
	for i := range s {
		switch w := s[i].weight(); {
		case w == 0 || len(s[i].Endpoints) == 0 || w == first:
		case first == 0:
			first = w
		default:
			return true
		}
	}
	return false
}

// addrPort returns the candidate's address and port.
func (s endpointSlices) addrPort(c candidate) netip.AddrPort {
	return netip.AddrPortFrom(s.endpoint(c).Addr, c.number)
}

// candidates returns the candidates for a port with their traits on node n, sorted.
//
// The same address may be in several slices while an endpoint moves between them, and
// the address of a terminating pod may already belong to a new pod. Of such
// duplicates, the first in the order of compare is used.
func (s endpointSlices) candidates(key portKey, n *Node) []candidate {
	type found struct { // with the address, to make most comparisons cheap
		at netip.AddrPort
		candidate
	}
	count := 0
	for i := range s {
		for range key.portNumbers(&s[i]) {
			count += len(s[i].Endpoints)
		}
	}
	all := make([]found, 0, count)
	for i := range s {
		for number := range key.portNumbers(&s[i]) {
			for k := range s[i].Endpoints {
				c := candidate{uint32(i), uint32(k), number, n.traitsOf(&s[i], &s[i].Endpoints[k])}
				all = append(all, found{s.addrPort(c), c})
			}
		}
	}
	slices.SortFunc(all, func(a, b found) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return s.compareSameAddr(a.candidate, b.candidate)
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

// compare orders candidates by address and number. Among duplicates, the one to use comes
// first.
func (s endpointSlices) compare(a, b candidate) int {
	if c := s.addrPort(a).Compare(s.addrPort(b)); c != 0 {
		return c
	}
	return s.compareSameAddr(a, b)
}

// compareSameAddr orders candidates of one address and number, the one to use first: one
// that does not terminate, then by the other conditions, then one that is drained or has a
// weight. A separate slice can thus drain an endpoint that another slice has, too. The
// result does not depend on the order of the slices or on the node. Their positions come
// last: they do not affect traffic, but make every candidate findable.
func (s endpointSlices) compareSameAddr(a, b candidate) int {
	p, q := s.endpoint(a), s.endpoint(b)
	return cmp.Or(
		trueFirst(!p.Terminating, !q.Terminating),
		trueFirst(p.Ready, q.Ready),
		trueFirst(p.Serving, q.Serving),
		trueFirst(s[a.slice].Drained, s[b.slice].Drained),
		trueFirst(s[a.slice].Weight > 0, s[b.slice].Weight > 0),
		cmp.Compare(s[a.slice].Weight, s[b.slice].Weight),
		cmp.Compare(p.Node, q.Node),
		cmp.Compare(p.ZoneHints, q.ZoneHints),
		cmp.Compare(p.NodeHints, q.NodeHints),
		cmp.Compare(a.slice, b.slice),
		cmp.Compare(a.index, b.index),
	)
}

// trueFirst compares booleans; true comes first.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// find returns the position of the first candidate at the address, or where it
// belongs.
func (s endpointSlices) find(all []candidate, at netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(all, at, func(c candidate, at netip.AddrPort) int { return s.addrPort(c).Compare(at) })
}

// traitsAt returns the traits of the candidate that is used at the address, zero without
// one.
func (s endpointSlices) traitsAt(all []candidate, at netip.AddrPort) traits {
	if i, found := s.find(all, at); found {
		return all[i].traits
	}
	return 0
}

// refreshTraits sets the traits of all candidates at the address and returns the traits
// of the candidate in use.
func (s endpointSlices) refreshTraits(all []candidate, at netip.AddrPort, n *Node) traits {
	i, found := s.find(all, at)
	if !found {
		return 0
	}
	all[i].traits = n.traitsOf(&s[all[i].slice], s.endpoint(all[i]))
	for k := i + 1; k < len(all) && s.addrPort(all[k]) == at; k++ {
		all[k].traits = 0
	}
	return all[i].traits
}

// remove removes the candidates in removed, in place.
func (s endpointSlices) remove(all, removed []candidate) []candidate {
	from, to := 0, 0
	for _, c := range removed {
		n, _ := slices.BinarySearchFunc(all[from:], c, s.compare)
		to += copy(all[to:], all[from:from+n])
		from += n + 1
	}
	to += copy(all[to:], all[from:])
	return all[:to]
}

// insert inserts the new candidates, in place if the capacity allows. It works from the
// end and moves each candidate once.
func (s endpointSlices) insert(all, added []candidate) []candidate {
	end := len(all)
	all = slices.Grow(all, len(added))[:end+len(added)]
	for i := len(added) - 1; i >= 0; i-- {
		at, _ := slices.BinarySearchFunc(all[:end], added[i], s.compare)
		copy(all[at+i+1:], all[at:end])
		all[at+i] = added[i]
		end = at
	}
	return all
}
