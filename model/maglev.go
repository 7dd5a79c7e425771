package model

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// MaglevTable spreads endpoints over a table of the given size, a prime number,
// by the algorithm of Maglev (Eisenbud et al., "Maglev: A Fast and Reliable
// Software Network Load Balancer", NSDI 2016, section 3.4): every endpoint has
// the same number of places, give or take one, and when endpoints come or go
// most places keep theirs. It depends on nothing but the endpoints, so that all
// nodes make the same table.
//
// The larger the table beside the number of endpoints, the better: with a
// hundred places each, shares differ by a hundredth. Places of nobody are
// invalid: all, if there is no endpoint.
//
// endpoints must be sorted and without duplicates. Of more than size, the last
// have no place.
func MaglevTable(endpoints []netip.AddrPort, size int) []netip.AddrPort {
	table := make([]netip.AddrPort, size)
	walks := make([]walk, len(endpoints))
	for i, e := range endpoints {
		walks[i] = walkOf(e, size)
	}
	for filled := 0; filled < size && len(walks) > 0; {
		for i := range min(len(walks), size-filled) {
			k := walks[i].next()
			for table[k].IsValid() {
				k = walks[i].next()
			}
			table[k] = endpoints[i]
			filled++
		}
	}
	return table
}

// walk is an endpoint's way through the table: every place once, in an order of
// its own. That takes a step which shares no divisor with the size.
type walk struct{ at, step, size uint64 }

// next is the next place.
func (w *walk) next() uint64 {
	k := w.at
	if w.at += w.step; w.at >= w.size {
		w.at -= w.size
	}
	return k
}

// walkOf derives the walk of an endpoint from its address and port: what the
// paper calls offset and skip. A table of another version must come out the
// same, and addresses differ in few bits; so the hash is one that is written
// down, and good.
func walkOf(e netip.AddrPort, size int) walk {
	var buf [18]byte
	b, _ := e.AppendBinary(buf[:0]) // never fails
	hash := sha256.Sum256(b)
	offset, skip := binary.BigEndian.Uint64(hash[:8]), binary.BigEndian.Uint64(hash[8:16])
	n := uint64(size)
	return walk{at: offset % n, step: skip%(n-1) + 1, size: n}
}
