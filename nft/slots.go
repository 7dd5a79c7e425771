package nft

import (
	"net/netip"
	"slices"
)

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
