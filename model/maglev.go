package model

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// MaglevTableSize is the size of the table of a port with [SchedulerMaglev]. It is a
// prime number.
const MaglevTableSize = 251

// MaglevTable distributes endpoints over a table of the given size, a prime number, by
// the algorithm of Maglev (Eisenbud et al., "Maglev: A Fast and Reliable Software
// Network Load Balancer", NSDI 2016, section 3.4): every endpoint has the same number
// of entries, give or take one, and when endpoints are added or removed, most entries
// do not change. The table depends on nothing but the endpoints, so that all nodes
// have the same one.
//
// The larger the table in relation to the number of endpoints, the better: with a
// hundred entries each, shares differ by one percent. Without endpoints all entries
// are invalid.
//
// endpoints must be sorted and without duplicates. If there are more than size, the
// last ones have no entry.
func MaglevTable(endpoints []netip.AddrPort, size int) []netip.AddrPort {
	table := make([]netip.AddrPort, size)
	permutations := make([]permutation, len(endpoints))
	for i, e := range endpoints {
		permutations[i] = newPermutation(e, size)
	}
	for filled := 0; filled < size && len(permutations) > 0; {
		for i := range min(len(permutations), size-filled) {
			k := permutations[i].next()
			for table[k].IsValid() {
				k = permutations[i].next()
			}
			table[k] = endpoints[i]
			filled++
		}
	}
	return table
}

// permutation is the order in which an endpoint prefers the entries of the table. It
// visits every entry once, because the step and the size, a prime, are coprime.
type permutation struct{ position, step, size uint64 }

// next returns the next entry.
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
