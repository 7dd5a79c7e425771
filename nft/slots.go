package nft

import (
	"net/netip"
	"slices"
)

// assignSlots places endpoints in dense slots. Endpoints that stay keep the slot
// they had in old; new ones fill the slots of those that went; and where slots
// remain empty, the last endpoints move into them. So the slots that change are
// no more than the endpoints that do, plus one for each that only left.
//
// endpoints must be sorted and without duplicates; the result may be the same
// slice.
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

// reassignSlots is [assignSlots] where old is known to hold exactly the endpoints of
// before, each once, and before is sorted as well: then only those that come or go
// are looked for. Of a hundred thousand endpoints that is most of the work.
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

// among reports whether an endpoint is one of a sorted list, which is short nearly
// always.
func among(list []netip.AddrPort, e netip.AddrPort) bool {
	if len(list) < 8 {
		return slices.Contains(list, e)
	}
	_, found := slices.BinarySearchFunc(list, e, netip.AddrPort.Compare)
	return found
}

// differing walks two sorted lists without duplicates and returns what is only in
// the first, and only in the second.
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
