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
// one list of one pool: if two endpoints there have the same hash, the later one gets the
// next number. A client that remembers the number of a removed endpoint can at worst, in
// one of 2^28 cases, keep to another endpoint of the same Service.
type stickyNumbers struct{ cluster, local []uint32 }

// numbersOf returns the numbers of a pool's endpoints, or nil without affinity.
func numbersOf(p *model.Pool) *stickyNumbers {
	if p.Affinity == 0 {
		return nil
	}
	return &stickyNumbers{cluster: numbered(p.Cluster), local: numbered(p.Local)}
}

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

// numbered returns the number of each endpoint of a list: its hash, or the next number if the
// one before is as high. It sorts, because authors of EndpointSlices can find any number of
// endpoints with the same hash; to look for a free number for each would take the square of
// that.
func numbered(endpoints []netip.AddrPort) []uint32 {
	var few [32]uint64 // not on the heap
	byHash := few[:0]  // hash and index
	for i, e := range endpoints {
		byHash = append(byHash, uint64(endpointHash(e))<<32|uint64(i))
	}
	slices.Sort(byHash)
	out, next := make([]uint32, len(endpoints)), uint64(0)
	for k, h := range byHash {
		next = max(next, h>>32)
		if next > numberMask {
			wrapNumbers(out, byHash[:k], byHash[k:])
			break
		}
		out[uint32(h)] = numberMark | uint32(next)
		next++
	}
	return out
}

// wrapNumbers gives the first free numbers to those that found none after their hash.
func wrapNumbers(out []uint32, done, left []uint64) {
	free := uint32(numberMark)
	for _, h := range left {
		for len(done) > 0 && out[uint32(done[0])] == free {
			free, done = free+1, done[1:]
		}
		out[uint32(h)] = free
		free++
	}
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
