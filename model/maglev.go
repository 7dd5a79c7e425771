package model

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"net/netip"
)

// MaglevTableSize is the size of the table of a port with [SchedulerMaglev]. It is a
// prime number.
const MaglevTableSize = 251

// MaglevTable distributes endpoints over a table of the given size, a prime number, by
// the algorithm of Maglev (Eisenbud et al., "Maglev: A Fast and Reliable Software Network
// Load Balancer", NSDI 2016, section 3.4): endpoints have entries in proportion to their
// weights, plus or minus one, but at least one. When endpoints are added or removed or a
// weight changes, most entries do not change. The table depends only on endpoints and
// weights, so all nodes have the same one.
//
// The larger the table in relation to the number of endpoints, the better: with a
// hundred entries each, shares differ by one percent. Without endpoints all entries
// are invalid.
//
// endpoints must be sorted and without duplicates. If there are more than size, the
// last ones have no entry. Weights must be above zero; nil means that all are equal.
func MaglevTable(endpoints []netip.AddrPort, weights []uint16, size int) []netip.AddrPort {
	table := make([]netip.AddrPort, size)
	if len(endpoints) == 0 {
		return table
	}
	permutations := make([]permutation, len(endpoints))
	for i, e := range endpoints {
		permutations[i] = newPermutation(e, size)
	}
	for i := range turns(len(endpoints), weights, size) {
		k := permutations[i].next()
		for table[k].IsValid() {
			k = permutations[i].next()
		}
		table[k] = endpoints[i]
	}
	return table
}

// turns ranges over the first turns of n endpoints, in proportion to their weights. An
// endpoint of weight w has its first turn at time 0, and turn k at (k+1/2)/w. So a weight
// that changes leaves the order of all other turns as it is, and equal weights take turns
// one after the other.
func turns(n int, weights []uint16, count int) iter.Seq[int] {
	return func(yield func(int) bool) {
		taken := make([]uint64, n)
		for turn := range count {
			next := turn % n
			if weights != nil {
				next = earliest(taken, weights)
				taken[next]++
			}
			if !yield(next) {
				return
			}
		}
	}
}

// earliest returns the endpoint whose next turn comes first, given how many turns each has
// taken; on a tie, the first of them.
func earliest(taken []uint64, weights []uint16) int {
	numerator := func(i int) uint64 { // of twice the time, whose denominator is the weight
		if taken[i] == 0 {
			return 0
		}
		return 2*taken[i] + 1
	}
	next := 0
	for i := range weights {
		if numerator(i)*uint64(weights[next]) < numerator(next)*uint64(weights[i]) {
			next = i
		}
	}
	return next
}

// permutation is the order in which an endpoint prefers the entries of the table. It
// visits every entry once, because the step and the size, a prime, are coprime.
type permutation struct{ position, step, size uint64 }

func (p *permutation) next() uint64 {
	k := p.position
	if p.position += p.step; p.position >= p.size {
		p.position -= p.size
	}
	return k
}

// newPermutation derives the permutation of an endpoint, which is called offset and
// skip in the paper, from its address and port. All versions must make the same table,
// and addresses differ in few bits, hence a standardized hash of good quality.
func newPermutation(e netip.AddrPort, size int) permutation {
	var buf [18]byte
	b, _ := e.AppendBinary(buf[:0]) // never fails
	hash := sha256.Sum256(b)
	offset, skip := binary.BigEndian.Uint64(hash[:8]), binary.BigEndian.Uint64(hash[8:16])
	n := uint64(size)
	return permutation{position: offset % n, step: skip%(n-1) + 1, size: n}
}
