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
