package model

import (
	"net/netip"
	"slices"
)

// endpointIndex keeps the candidates for one port and the lists selected from them.
// It holds positions in endpointSlices, which its methods take as an argument.
type endpointIndex struct {
	portKey
	candidates []candidate // sorted
	counts     traitCounts // of candidates
	criteria   criteria    // that lists were selected by
	lists      endpointLists
	used       bool // since the last dropUnused
}

// rebuild collects the candidates from scratch.
func (x *endpointIndex) rebuild(s endpointSlices, n *Node) {
	x.candidates, x.counts = s.candidates(x.portKey, n), traitCounts{}
	for i := range x.candidates {
		x.counts.add(x.candidates[i].traits)
	}
}

// rebuildLists selects all lists from the candidates.
func (x *endpointIndex) rebuildLists(s endpointSlices, n needs) {
	x.criteria = x.counts.criteria(n)
	x.lists = endpointLists{
		cluster:   x.matching(s, x.criteria.cluster),
		local:     x.matching(s, x.criteria.local),
		anyUsable: x.counts.anyUsable(n),
		hairpin:   x.hairpin(s),
	}
	x.lists.flows = x.flows(func() []netip.AddrPort { return x.matching(s, isServing, isReady) })
	x.weigh(s)
}

// weigh lists the weights for the lists of a Service that has different ones. It looks at
// all candidates, which costs less than the copies of the lists.
func (x *endpointIndex) weigh(s endpointSlices) {
	x.lists.clusterWeights, x.lists.localWeights = nil, nil
	if s.weighted() {
		x.lists.clusterWeights = x.weights(s, len(x.lists.cluster), x.criteria.cluster)
		x.lists.localWeights = x.weights(s, len(x.lists.local), x.criteria.local)
	}
}

// weights lists the weights of the n candidates that have the traits; nil if all are
// equal.
func (x *endpointIndex) weights(s endpointSlices, n int, want traits) []uint16 {
	out, differ := make([]uint16, 0, n), false
	for _, c := range x.candidates {
		if c.traits.hasAll(want) {
			out = append(out, s[c.slice].weight())
			differ = differ || out[0] != out[len(out)-1]
		}
	}
	if !differ {
		return nil
	}
	return out
}

// flows returns the list for flows, if needed. It includes the cluster list and mostly
// equals it; then they share memory, and otherwise list makes it.
func (x *endpointIndex) flows(list func() []netip.AddrPort) []netip.AddrPort {
	switch {
	case !x.criteria.needs.flows:
		return nil
	case x.counts.count(isServing, isReady) == len(x.lists.cluster):
		return x.lists.cluster
	}
	return list()
}

// matching lists the candidates that have one of the alternatives.
func (x *endpointIndex) matching(s endpointSlices, alternatives ...traits) []netip.AddrPort {
	n := x.counts.count(alternatives...)
	if n == 0 {
		return nil
	}
	out := make([]netip.AddrPort, 0, n)
	for _, c := range x.candidates {
		if c.traits.hasAny(alternatives...) {
			out = append(out, s.addrPort(c))
		}
	}
	return out
}

// hairpin lists the addresses of the selected candidates that run on the node.
func (x *endpointIndex) hairpin(s endpointSlices) []netip.Addr {
	alternatives := x.criteria.hairpin()
	var out []netip.Addr
	for _, c := range x.candidates {
		if !c.traits.hasAny(alternatives...) {
			continue
		}
		if addr := s.endpoint(c).Addr; len(out) == 0 || out[len(out)-1] != addr {
			out = append(out, addr)
		}
	}
	return out
}

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
