package nft

import (
	"cmp"
	"net/netip"
	"slices"
)

// A spread is a list of endpoints, sorted and without duplicates, with the number of slots
// that each takes; nil means one each.
type spread struct {
	endpoints []netip.AddrPort
	shares    []uint16
}

func (s spread) slots() int {
	if s.shares == nil {
		return len(s.endpoints)
	}
	n := 0
	for _, share := range s.shares {
		n += int(share)
	}
	return n
}

func (s spread) share(i int) uint16 {
	if s.shares == nil {
		return 1
	}
	return s.shares[i]
}

// copy returns a copy whose shares may be taken.
func (s spread) copy() spread {
	if s.shares != nil {
		return spread{s.endpoints, slices.Clone(s.shares)}
	}
	out := spread{s.endpoints, make([]uint16, len(s.endpoints))}
	for i := range out.shares {
		out.shares[i] = 1
	}
	return out
}

// take takes one of the endpoint's shares away, and reports whether it had one.
func (s spread) take(e netip.AddrPort) bool {
	i, found := s.find(e)
	if !found || s.shares[i] == 0 {
		return false
	}
	s.shares[i]--
	return true
}

// find returns the index of an endpoint. Most lists are very short.
func (s spread) find(e netip.AddrPort) (int, bool) {
	if len(s.endpoints) < 8 {
		i := slices.Index(s.endpoints, e)
		return i, i >= 0
	}
	return slices.BinarySearchFunc(s.endpoints, e, netip.AddrPort.Compare)
}

// differences returns the endpoints that have fewer shares afterwards, and those that have
// more, with how many. The shares of fewer may be taken.
func (s spread) differences(after spread) (fewer, more spread) {
	a, b := 0, 0
	for a < len(s.endpoints) || b < len(after.endpoints) {
		order := 0
		switch {
		case a < len(s.endpoints) && b < len(after.endpoints) && s.endpoints[a] == after.endpoints[b]:
		case a == len(s.endpoints):
			order = 1
		case b == len(after.endpoints):
			order = -1
		default:
			order = s.endpoints[a].Compare(after.endpoints[b])
		}
		var had, has uint16
		var e netip.AddrPort
		if order <= 0 {
			e, had = s.endpoints[a], s.share(a)
			a++
		}
		if order >= 0 {
			e, has = after.endpoints[b], after.share(b)
			b++
		}
		if had > has {
			fewer.endpoints, fewer.shares = append(fewer.endpoints, e), append(fewer.shares, had-has)
		} else if has > had {
			more.endpoints, more.shares = append(more.endpoints, e), append(more.shares, has-had)
		}
	}
	return fewer, more
}

// interleaved lists the endpoints as often as they have shares, each at even distances, to
// keep [pickRoundRobin] from picking one many times in succession.
func (s spread) interleaved() []netip.AddrPort {
	if s.shares == nil {
		return s.endpoints
	}
	type turn struct {
		at uint64 // the middle of a part of the list, in 2^-32 of its length
		i  int
	}
	turns := make([]turn, 0, s.slots())
	for i, share := range s.shares {
		for k := range share {
			turns = append(turns, turn{(2*uint64(k) + 1) << 31 / uint64(share), i})
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.i, b.i)) })
	out := make([]netip.AddrPort, len(turns))
	for i, t := range turns {
		out[i] = s.endpoints[t.i]
	}
	return out
}
