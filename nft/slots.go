package nft

import (
	"net/netip"
	"slices"
)

// assignSlots assigns endpoints to slots without gaps. Endpoints that are in old keep their
// slots; new ones get the slots of those that are gone; and if slots are still free, the
// last endpoints move there. So at most one slot changes for each endpoint that is new or
// gone, and one more for each that is not replaced.
//
// endpoints must be sorted and without duplicates; the result may be the same slice.
func assignSlots(old, endpoints []netip.AddrPort) []netip.AddrPort {
	if len(old) == 0 || slices.Equal(old, endpoints) {
		return endpoints
	}
	slots := make([]netip.AddrPort, max(len(old), len(endpoints)))
	taken := make([]bool, len(endpoints))
	for k, e := range old {
		if i, stays := slices.BinarySearchFunc(endpoints, e, netip.AddrPort.Compare); stays && !taken[i] {
			slots[k], taken[i] = e, true
		}
	}
	k := 0
	for i, e := range endpoints {
		if taken[i] {
			continue
		}
		for slots[k].IsValid() {
			k++
		}
		slots[k] = e
	}
	return compact(slots, len(endpoints))
}

// reassignSlots is [assignSlots] if old is known to have exactly the endpoints of before,
// each once, and before is sorted: then only those that are new or gone are looked up. Of a
// hundred thousand endpoints that saves most of the work.
func reassignSlots(old, before, endpoints []netip.AddrPort) []netip.AddrPort {
	gone, come := differing(before, endpoints, netip.AddrPort.Compare)
	if len(gone) == 0 && len(come) == 0 {
		return old
	}
	slots := make([]netip.AddrPort, max(len(old), len(endpoints)))
	copy(slots, old)
	for k, left := 0, len(gone); left > 0; k++ {
		if !among(gone, old[k]) {
			continue
		}
		left--
		slots[k] = netip.AddrPort{}
		if len(come) > 0 {
			slots[k], come = come[0], come[1:]
		}
	}
	copy(slots[len(old):], come)
	return compact(slots, len(endpoints))
}

// among reports whether an endpoint is in a sorted list, which is nearly always short.
func among(list []netip.AddrPort, e netip.AddrPort) bool {
	if len(list) < 8 {
		return slices.Contains(list, e)
	}
	_, found := slices.BinarySearchFunc(list, e, netip.AddrPort.Compare)
	return found
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
