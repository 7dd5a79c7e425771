package nft

import (
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// stickyNumbers are the numbers of a pool's endpoints, in the order of its lists: what the
// kernel remembers for a client (rules_affinity.go).
//
// A number follows from the endpoint alone. So it survives restarts, other slots and other
// endpoints without any state, and is the same on all nodes. It need only be unique within
// one list of one pool: if two endpoints there have the same number, the later one gets
// the next number that is free. A client that remembers the number of an endpoint that is
// gone can at worst, in one of 2^28 cases, keep to another endpoint of the same Service.
type stickyNumbers struct{ cluster, local []uint32 }

// numbersOf returns the numbers of a pool's endpoints; nil if it has no affinity.
func numbersOf(p *model.Pool) *stickyNumbers {
	if p.Affinity == 0 {
		return nil
	}
	return &stickyNumbers{cluster: numbered(p.Cluster), local: numbered(p.Local)}
}

// list returns the numbers of one of the two lists.
func (n *stickyNumbers) list(local bool) []uint32 {
	if local {
		return n.local
	}
	return n.cluster
}

// Bits of the numbers. The first four mark a packet's priority as one of ours.
const (
	numberMark = 0xf << 28
	numberMask = 1<<28 - 1
)

// fewNumbers is up to how many numbers are searched one by one, which is faster than a map.
const fewNumbers = 32

// numbered returns the number of each endpoint of a list.
func numbered(endpoints []netip.AddrPort) []uint32 {
	out := make([]uint32, 0, len(endpoints))
	taken := func(n uint32) bool { return slices.Contains(out, n) }
	if len(endpoints) > fewNumbers {
		all := make(map[uint32]bool, len(endpoints))
		taken = func(n uint32) bool {
			twice := all[n]
			all[n] = true
			return twice
		}
	}
	for _, e := range endpoints {
		n := numberMark | endpointHash(e)
		for taken(n) {
			n = numberMark | (n+1)&numberMask
		}
		out = append(out, n)
	}
	return out
}

// endpointHash is a hash of an endpoint, below 2^28: FNV-1a, folded. It must never change,
// or a new version would lose the affinity of all clients.
func endpointHash(e netip.AddrPort) uint32 {
	h := uint64(14695981039346656037)
	add := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	for _, b := range e.Addr().As16() {
		add(b)
	}
	add(byte(e.Port() >> 8))
	add(byte(e.Port()))
	return uint32(h^h>>28^h>>56) & numberMask
}
