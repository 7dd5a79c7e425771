package nft

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// A Plan is a change of a [Ruleset], and the batch that makes it. It is valid for one commit,
// of the state it was made for.
type Plan struct {
	Batch Batch

	change    Change
	set       []placedFrontend
	uses      refCounts // differences, as are shared and counts
	shared    map[sharedKey]int
	addresses map[netip.Addr]addressCount
	counts    map[SetID]int
	sizes     map[SetID]uint32 // of sets that are new or have grown
	removed   []SetID
	endpoints int
	edit      *edit
}

// Plan returns the batch for a change; the state does not change. It costs what the frontends
// in the change cost, or what all cost if a set outgrows its size: that set is rebuilt with
// twice the capacity.
func (r *Ruleset) Plan(c Change) *Plan {
	p := &Plan{
		change:    c,
		uses:      refCounts{},
		shared:    map[sharedKey]int{},
		addresses: map[netip.Addr]addressCount{},
		counts:    map[SetID]int{},
		sizes:     map[SetID]uint32{},
		edit:      newEdit(),
	}
	for i := range c.Set {
		at := r.frontends.find(c.Set[i].Match)
		old := r.frontends.in(at)
		var before slots
		if old != nil {
			before = old.slots
		}
		next := new(frontendState)
		r.config.initState(next, &c.Set[i], before)
		p.set = append(p.set, placedFrontend{next, at})
		p.replace(r, old, next)
	}
	for _, m := range c.Removed {
		p.replace(r, r.frontends.at(m), nil)
	}
	p.planShared(r)
	p.planNode(r)
	p.planObjects(r)
	p.grow(r)
	p.Batch = p.edit.batch(&r.config, func(id SetID) bool { return p.has(r, id) })
	return p
}

// replace notes how the elements of one frontend change; either may be nil.
func (p *Plan) replace(r *Ruleset, old, next *frontendState) {
	var have, want []setElement
	if next != nil {
		want = next.ownElements(nil)
		p.endpoints += next.endpoints()
	}
	if old != nil {
		have = old.ownElements(nil)
		p.endpoints -= old.endpoints()
	}
	// Both lists are in the order of sets and keys.
	for len(have) > 0 || len(want) > 0 {
		switch order := compareSetElements(have, want); {
		case order == 0 && sameInKernel(&have[0], &want[0]):
			have, want = have[1:], want[1:]
		case order >= 0: // the old element of the same key is removed next
			p.add(r, &want[0])
			want = want[1:]
		default:
			p.remove(r, &have[0])
			have = have[1:]
		}
	}
	for _, local := range [...]bool{false, true} {
		had, has := old.slotListOrNone(local), next.slotListOrNone(local)
		p.replaceSlots(r, &had, &has)
		p.replaceNumbers(r, &had, &has)
	}
	p.replaceShared(old, next)
	if before, after := old.addressCount(), next.addressCount(); before != after {
		a := cmp.Or(next, old).Match.Addr
		p.addresses[a] = p.addresses[a].plus(before, -1).plus(after, 1)
	}
}

// slotListOrNone is slotList, but accepts nil.
func (p *frontendState) slotListOrNone(local bool) slotList {
	if p == nil {
		return slotList{}
	}
	return p.slotList(local)
}

// replaceSlots notes which slots change. It compares all, and makes elements of those that
// differ.
func (p *Plan) replaceSlots(r *Ruleset, old, next *slotList) {
	for k := range max(len(old.list), len(next.list)) {
		had, has := k < len(old.list), k < len(next.list)
		if had && has && old.same(next, k) {
			continue
		}
		if has {
			e := next.at(k)
			p.add(r, &e)
		}
		if had {
			e := old.at(k)
			p.remove(r, &e)
		}
	}
}

// same reports whether both lists have the same element in slot k.
func (r *slotList) same(o *slotList, k int) bool {
	return r.kind == o.kind && r.list[k] == o.list[k] && (r.kind != SetStickyNumbers || r.number(k) == o.number(k))
}

// replaceNumbers notes which endpoints of numbers change.
func (p *Plan) replaceNumbers(r *Ruleset, old, next *slotList) {
	for i, j := 0, 0; i < len(old.numbers) || j < len(next.numbers); {
		order := 1
		switch {
		case i == len(old.numbers):
		case j == len(next.numbers):
			order = -1
		default:
			order = old.spread.endpoints[i].Compare(next.spread.endpoints[j])
		}
		if order == 0 && old.numbers[i] == next.numbers[j] {
			i, j = i+1, j+1
			continue
		}
		if order >= 0 {
			e := next.numbered(j)
			p.add(r, &e)
			j++
		}
		if order <= 0 {
			e := old.numbered(i)
			p.remove(r, &e)
			i++
		}
	}
}

// sameInKernel reports whether the kernel holds the same for two elements of one key.
func sameInKernel(a, b *setElement) bool {
	return a.Value == b.Value && (*a.Service == *b.Service || !a.set.Layout().Comments)
}

func (p *Plan) add(r *Ruleset, e *setElement) {
	s := p.edit.of(e.set)
	s.add = append(s.add, e.Element)
	p.count(r, e, 1)
}

func (p *Plan) remove(r *Ruleset, e *setElement) {
	s := p.edit.of(e.set)
	s.remove = append(s.remove, e.Element)
	p.count(r, e, -1)
}

func (p *Plan) count(r *Ruleset, e *setElement, step int) {
	p.counts[e.set] += step
	if e.Value.refers() {
		p.uses.add(r.cache, r.uses, reference{chain: e.Value.Chain}, step)
	}
	for _, kind := range e.set.Kind.readers() {
		p.uses.add(r.cache, r.uses, reference{chain: ChainID{Family: e.set.Family, Kind: kind}}, step)
	}
}

// replaceShared counts the shared elements that more or fewer frontends now need.
func (p *Plan) replaceShared(old, next *frontendState) {
	if old == nil || next == nil || !old.IsClusterIP() || !next.IsClusterIP() {
		p.countShared(old, -1)
		p.countShared(next, 1)
		return
	}
	removed, added := differing(old.Pool.Hairpin, next.Pool.Hairpin, netip.Addr.Compare)
	for _, pod := range removed {
		p.shared[old.hairpin(pod)]--
	}
	for _, pod := range added {
		p.shared[next.hairpin(pod)]++
	}
	before, after := old.endpointIPs(), next.endpointIPs()
	for i := range before {
		removed, added := differing(before[i], after[i], netip.AddrPort.Compare)
		for _, e := range removed {
			p.shared[old.endpointIP(e)]--
		}
		for _, e := range added {
			p.shared[next.endpointIP(e)]++
		}
	}
}

// countShared counts the shared elements that a frontend needs, by step; it may be nil.
func (p *Plan) countShared(f *frontendState, step int) {
	if f == nil {
		return
	}
	for _, k := range f.sharedKeys(nil) {
		p.shared[k] += step
	}
}

// compareSetElements orders the heads of two lists; an empty list comes last.
func compareSetElements(have, want []setElement) int {
	switch {
	case len(have) == 0:
		return 1
	case len(want) == 0:
		return -1
	}
	if c := compareSets(have[0].set, want[0].set); c != 0 {
		return c
	}
	return CompareKeys(have[0].Key, want[0].Key)
}

// planShared adds the shared elements that the change needs first, and removes those without
// remaining users.
func (p *Plan) planShared(r *Ruleset) {
	for k, step := range p.shared {
		p.share(k, r.shared[k] > 0, r.shared[k]+step > 0)
	}
	for a, step := range p.addresses {
		before := r.frontends.countAt(a)
		after := before.plus(step, 1)
		for kind := SetClusterIPs; kind.ofAddresses(); kind++ {
			k := sharedKey{SetID{Family: model.FamilyOf(a), Kind: kind}, Key{Addr: a}}
			p.share(k, before.needs(kind), after.needs(kind))
		}
	}
}

// share adds or removes a shared element.
func (p *Plan) share(k sharedKey, before, after bool) {
	switch e := p.edit; {
	case after && !before:
		e.of(k.set).add = append(e.of(k.set).add, Element{Key: k.key})
		p.counts[k.set]++
	case before && !after:
		e.of(k.set).remove = append(e.of(k.set).remove, Element{Key: k.key})
		p.counts[k.set]--
	}
}

// planNode changes the elements that belong to no Service.
func (p *Plan) planNode(r *Ruleset) {
	if p.change.ServiceCIDRs == nil && p.change.NodeAddrs == nil {
		return
	}
	have, want := r.nodeSets(), p.nodeElements(r)
	for id := range want {
		diffElements(p.edit, id, have[id], want[id])
		p.counts[id] += len(want[id]) - len(have[id])
	}
}

// nodeElements are the elements of no Service after the change.
func (p *Plan) nodeElements(r *Ruleset) map[SetID][]Element {
	cidrs, addrs := r.cidrs, r.nodeAddrs
	if p.change.ServiceCIDRs != nil {
		cidrs = *p.change.ServiceCIDRs
	}
	if p.change.NodeAddrs != nil {
		addrs = *p.change.NodeAddrs
	}
	return nodeElements(cidrs, addrs)
}

// planObjects adds the chains and sets that come into use, and removes those that are no
// longer in use. A set is also in use while it has elements, even if no rule reads it:
// endpoints of a Service whose addresses are all claimed by other Services, for instance.
func (p *Plan) planObjects(r *Ruleset) {
	steps := maps.Clone(p.uses)
	stays := func(id ChainID) bool {
		o := reference{chain: id}
		return r.uses[o] > 0 && r.uses[o]+p.uses[o] > 0
	}
	for id, step := range p.counts {
		if id.Kind >= baseSets {
			steps[reference{set: id, isSet: true}] += step
		}
	}
	for o, step := range steps {
		before := r.uses[o]
		if o.isSet {
			before += r.counts[o.set]
		}
		switch after := before + step; {
		case (before == 0) == (after == 0):
		case o.isSet && after == 0:
			p.removed = append(p.removed, o.set)
			p.edit.rewriteReadersOf(o.set, stays)
			p.edit.forget(o.set)
			p.edit.deleteSets = append(p.edit.deleteSets, DeleteSet{o.set.Family, o.set.Name()})
		case o.isSet:
			p.edit.rewriteReadersOf(o.set, stays)
			p.sizes[o.set] = capacity(p.counts[o.set])
			p.edit.addSets = append(p.edit.addSets, AddSet{o.set, p.sizes[o.set]})
		case after == 0:
			p.edit.dropChain(o.chain.Family, o.chain.Name())
		default:
			p.edit.newChain(o.chain)
		}
	}
}

// has reports whether the set exists after the change.
func (p *Plan) has(r *Ruleset, id SetID) bool {
	if _, comes := p.sizes[id]; comes {
		return true
	}
	return r.has(id) && !slices.Contains(p.removed, id)
}

// Commit makes the planned state the current one. It is for after the kernel accepted the
// plan's batch.
func (r *Ruleset) Commit(p *Plan) {
	r.frontends.change(p.set, p.change.Removed)
	if p.change.ServiceCIDRs != nil {
		r.cidrs = *p.change.ServiceCIDRs
	}
	if p.change.NodeAddrs != nil {
		r.nodeAddrs = *p.change.NodeAddrs
	}
	addCounts(r.uses, p.uses)
	for o := range p.uses {
		if _, used := r.uses[o]; !used && !o.isSet {
			r.cache.forget(o.chain)
		}
	}
	addCounts(r.shared, p.shared)
	addCounts(r.counts, p.counts)
	maps.Copy(r.sizes, p.sizes)
	for id := range p.sizes { // rebuilt
		delete(r.full, id)
	}
	for _, id := range p.removed {
		delete(r.sizes, id)
		delete(r.full, id)
	}
	r.endpoints += p.endpoints
	r.shared = model.Shrink(r.shared, &r.peak)
}

// addCounts adds differences to counts, and deletes those that become zero.
func addCounts[M ~map[K]int, K comparable](counts, steps M) {
	for k, step := range steps {
		if counts[k] += step; counts[k] == 0 {
			delete(counts, k)
		}
	}
}
