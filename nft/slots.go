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

// assignSlots assigns endpoints to slots without gaps. Endpoints that are in old keep their
// slots, up to their number of shares. Endpoints that need more get the slots of those that
// need fewer, and if slots are still free, the last endpoints move there. So at most one
// slot changes for each share that is added or removed, and one more for each that is not
// replaced.
//
// The result may be the same slice as the endpoints.
func assignSlots(old []netip.AddrPort, after spread) []netip.AddrPort {
	if len(old) == 0 || after.shares == nil && slices.Equal(old, after.endpoints) {
		return after.interleaved()
	}
	slots := make([]netip.AddrPort, max(len(old), after.slots()))
	more := after.copy()
	for k, e := range old {
		if more.take(e) {
			slots[k] = e
		}
	}
	fill(slots, more.interleaved())
	return compact(slots, after.slots())
}

// reassignSlots is [assignSlots] if old is known to have exactly the endpoints and shares of
// before: then only those that differ are looked up. Of a hundred thousand endpoints that
// saves most of the work.
func reassignSlots(old []netip.AddrPort, before, after spread) []netip.AddrPort {
	fewer, more := before.differences(after)
	if len(fewer.endpoints) == 0 && len(more.endpoints) == 0 {
		return old
	}
	slots := make([]netip.AddrPort, max(len(old), after.slots()))
	copy(slots, old)
	free := len(old)
	for left := fewer.slots(); left > 0; { // the last slots first, as assignSlots
		if free--; fewer.take(old[free]) {
			slots[free] = netip.AddrPort{}
			left--
		}
	}
	fill(slots[free:], more.interleaved())
	return compact(slots, after.slots())
}

// fill assigns endpoints to the first slots that are free.
func fill(slots, endpoints []netip.AddrPort) {
	k := 0
	for _, e := range endpoints {
		for slots[k].IsValid() {
			k++
		}
		slots[k] = e
	}
}

// compact moves endpoints from slots at or above n into the free ones below.
func compact(slots []netip.AddrPort, n int) []netip.AddrPort {
	free := 0
	for last := len(slots) - 1; last >= n; last-- {
		if !slots[last].IsValid() {
			continue
		}
		for slots[free].IsValid() {
			free++
		}
		slots[free] = slots[last]
	}
	return slots[:n:n]
}

// differing returns what only one of two lists has, both sorted and without duplicates.
func differing[E comparable](a, b []E, compare func(E, E) int) (onlyA, onlyB []E) {
	for len(a) > 0 && len(b) > 0 {
		if a[0] == b[0] {
			a, b = a[1:], b[1:]
			continue
		}
		if compare(a[0], b[0]) < 0 {
			onlyA, a = append(onlyA, a[0]), a[1:]
		} else {
			onlyB, b = append(onlyB, b[0]), b[1:]
		}
	}
	return append(onlyA, a...), append(onlyB, b...)
}
