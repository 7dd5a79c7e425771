package model

import (
	"net/netip"
	"slices"
)

// A rebuild costs several times less per candidate than an update in place, but
// handles all of them.
const (
	smallDelta   = 100 // up to so many differences are always applied in place
	rebuildRatio = 8   // or up to one in rebuildRatio candidates
)

// rebuildPays reports whether to rebuild an index instead of applying differences to
// it: because they are many, or because its memory is mostly unused.
func rebuildPays(differences, candidates, capacity int) bool {
	return differences > smallDelta && differences > candidates/rebuildRatio || candidates < capacity/4
}

// sliceDelta is how slices changed since an index was up to date.
type sliceDelta struct {
	before, after endpointSlices // of the same length
	touched       []uint32       // positions of changed slices, without duplicates
	node          *Node
}

func (x *endpointIndex) update(d *sliceDelta) {
	removed, added := d.differences(x.portKey)
	n := len(removed) + len(added)
	if n == 0 {
		return
	}
	if rebuildPays(n, len(x.candidates), cap(x.candidates)) {
		x.rebuild(d.after, d.node)
		x.rebuildLists(d.after, x.criteria.needs)
		return
	}
	x.applyDelta(d, removed, added)
}

// differences returns the removed and the added candidates for the port, both sorted.
// Unchanged candidates at the same position are in neither.
func (d *sliceDelta) differences(key portKey) (removed, added []candidate) {
	for _, i := range d.touched {
		before, after := &d.before[i], &d.after[i]
		sameForAll := before.sameForAll(after)
		differs := func(k int) bool {
			inBoth := k < len(before.Endpoints) && k < len(after.Endpoints)
			return !inBoth || !sameForAll || before.Endpoints[k] != after.Endpoints[k]
		}
		removed = key.appendCandidates(removed, before, i, differs)
		added = key.appendCandidates(added, after, i, differs)
	}
	slices.SortFunc(removed, d.before.compare)
	slices.SortFunc(added, d.after.compare)
	return removed, added
}

// appendCandidates appends, without traits, the candidates of the slice at position i
// whose endpoints pass wanted.
func (k portKey) appendCandidates(to []candidate, s *EndpointSlice, i uint32, wanted func(int) bool) []candidate {
	for number := range k.portNumbers(s) {
		for e := range s.Endpoints {
			if wanted(e) {
				to = append(to, candidate{slice: i, index: uint32(e), number: number})
			}
		}
	}
	return to
}

func (x *endpointIndex) applyDelta(d *sliceDelta, removed, added []candidate) {
	changes := make([]traitChange, 0, len(removed)+len(added))
	for _, c := range removed {
		changes = append(changes, traitChange{addr: d.before.addrPort(c)})
	}
	for _, c := range added {
		changes = append(changes, traitChange{addr: d.after.addrPort(c)})
	}
	slices.SortFunc(changes, func(a, b traitChange) int { return a.addr.Compare(b.addr) })
	changes = slices.CompactFunc(changes, func(a, b traitChange) bool { return a.addr == b.addr })
	for i := range changes {
		changes[i].before = d.before.traitsAt(x.candidates, changes[i].addr)
	}
	x.candidates = d.before.remove(x.candidates, removed)
	x.candidates = d.after.insert(x.candidates, added)
	for i := range changes {
		c := &changes[i]
		c.after = d.after.refreshTraits(x.candidates, c.addr, d.node)
		x.counts.remove(c.before)
		x.counts.add(c.after)
	}
	x.updateLists(d.after, changes)
}

// updateLists brings the lists up to date after changes. It selects them from scratch
// only if the criteria changed, for example when the first endpoint gets a hint.
func (x *endpointIndex) updateLists(s endpointSlices, changes []traitChange) {
	if x.counts.criteria(x.criteria.needs) != x.criteria {
		x.rebuildLists(s, x.criteria.needs)
		return
	}
	before := x.lists
	x.lists.cluster = patchList(before.cluster, changes, x.criteria.cluster)
	x.lists.local = patchList(before.local, changes, x.criteria.local)
	x.weigh(s)
	x.lists.anyUsable = x.counts.anyUsable(x.criteria.needs)
	x.lists.flows = x.flows(func() []netip.AddrPort { return patchList(before.flows, changes, isServing, isReady) })
	if len(relevantChanges(changes, x.criteria.hairpin()...)) > 0 {
		x.lists.hairpin = x.hairpin(s)
	}
}

// traitChange is the change of the traits at one address and port. Traits are zero
// without an endpoint.
type traitChange struct {
	addr          netip.AddrPort
	before, after traits
}

// relevantChanges returns the changes that make an address join or leave the list of the
// addresses with one of the alternatives.
func relevantChanges(changes []traitChange, alternatives ...traits) []traitChange {
	var out []traitChange
	for _, c := range changes {
		if c.before.hasAny(alternatives...) != c.after.hasAny(alternatives...) {
			out = append(out, c)
		}
	}
	return out
}

// patchList applies changes to the sorted list of addresses with one of the
// alternatives. It returns the same list if nothing changes, or else a copy.
func patchList(list []netip.AddrPort, changes []traitChange, alternatives ...traits) []netip.AddrPort {
	changes = relevantChanges(changes, alternatives...)
	if len(changes) == 0 {
		return list
	}
	out := make([]netip.AddrPort, 0, len(list)+len(changes))
	for _, c := range changes {
		at, _ := slices.BinarySearchFunc(list, c.addr, netip.AddrPort.Compare)
		out, list = append(out, list[:at]...), list[at:]
		if c.after.hasAny(alternatives...) {
			out = append(out, c.addr)
		} else {
			list = list[1:]
		}
	}
	if out = append(out, list...); len(out) == 0 {
		return nil
	}
	return out
}
