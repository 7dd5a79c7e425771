package nft

import (
	"cmp"
	"maps"
	"slices"

	"kube-vmap/model"
)

// An edit collects changes in any order and puts them in the one order that the kernel
// accepts: references to an object are deleted before the object, and an object is added
// before references to it.
type edit struct {
	deleteTables []DeleteTable
	tables       []AddTable
	reclaimed    []AddTable // that exist and have no owner
	counters     []AddCounter
	elements     map[SetID]*elementEdit
	flushChains  []FlushChain
	deleteChains []DeleteChain
	deleteSets   []DeleteSet
	addSets      []AddSet
	addChains    []AddChain
	rewrite      map[ChainID]struct{} // chains that get rules, including new chains
}

// An elementEdit is what changes in one set.
type elementEdit struct {
	add, remove []Element
	refs        *refList // to add, to a set that is new
}

func newEdit() *edit {
	return &edit{elements: map[SetID]*elementEdit{}, rewrite: map[ChainID]struct{}{}}
}

func (e *edit) of(id SetID) *elementEdit {
	s := e.elements[id]
	if s == nil {
		s = &elementEdit{}
		e.elements[id] = s
	}
	return s
}

// batch puts the edit in order. Rules come from the configuration, for tables that have
// these sets after it.
func (e *edit) batch(c *Config, has func(SetID) bool) Batch {
	b := appendOps(nil, e.deleteTables)
	b = appendOps(b, e.tables)
	b = appendOps(b, e.reclaimed)
	b = appendOps(b, e.counters)
	slices.SortFunc(e.flushChains, func(a, b FlushChain) int { return compareNamed(a.Family, a.Name, b.Family, b.Name) })
	b = appendOps(b, e.flushChains)
	sets := slices.SortedFunc(maps.Keys(e.elements), compareSets)
	for _, id := range sets {
		if removed := e.elements[id].remove; len(removed) > 0 {
			b = append(b, DeleteElements{id, SortByKey(removed)})
		}
	}
	slices.SortFunc(e.deleteSets, func(a, b DeleteSet) int { return compareNamed(a.Family, a.Name, b.Family, b.Name) })
	b = appendOps(b, e.deleteSets)
	slices.SortFunc(e.deleteChains, func(a, b DeleteChain) int { return compareNamed(a.Family, a.Name, b.Family, b.Name) })
	b = appendOps(b, e.deleteChains)
	slices.SortFunc(e.addSets, func(a, b AddSet) int { return compareSets(a.Set, b.Set) })
	b = appendOps(b, e.addSets)
	slices.SortFunc(e.addChains, func(a, b AddChain) int { return compareChains(a.Chain, b.Chain) })
	b = appendOps(b, e.addChains)
	for _, id := range slices.SortedFunc(maps.Keys(e.rewrite), compareChains) {
		for _, r := range c.rules(id, has) {
			b = append(b, AddRule{id, r})
		}
	}
	return e.appendAdded(b, sets)
}

func appendOps[O Op](b Batch, ops []O) Batch {
	for _, op := range ops {
		b = append(b, op)
	}
	return b
}

// appendAdded appends the new elements: data before dispatch, and the elements of one set
// together, which then take only one transaction object in the kernel.
func (e *edit) appendAdded(b Batch, sets []SetID) Batch {
	for _, dispatching := range [...]bool{false, true} {
		for _, id := range sets {
			if (id.Layout().Content == ContentVerdict) != dispatching {
				continue
			}
			if added := e.elements[id].add; len(added) > 0 {
				b = append(b, AddElements{id, SortByKey(added)})
			}
			if refs := e.elements[id].refs; refs != nil {
				b = append(b, addFrontends(id, refs))
			}
		}
	}
	return b
}

// SortByKey orders elements by key, and returns them. Most come in order already.
func SortByKey(elements []Element) []Element {
	byKey := func(a, b Element) int { return CompareKeys(a.Key, b.Key) }
	if !slices.IsSortedFunc(elements, byKey) {
		slices.SortFunc(elements, byKey)
	}
	return elements
}

func compareSets(a, b SetID) int {
	return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Kind, b.Kind),
		compareBool(a.Local, b.Local), cmp.Compare(a.Slot, b.Slot))
}

// compareNamed orders objects by name; objects of other programs have nothing else.
func compareNamed(f model.Family, name string, g model.Family, other string) int {
	return cmp.Or(cmp.Compare(f, g), cmp.Compare(name, other))
}

// grow rebuilds sets that are too small in the same transaction. The kernel could raise the
// size, but the number of buckets of a set with a size is fixed when it is added, and
// look-ups would become slow.
func (p *Plan) grow(r *Ruleset) {
	grown := map[SetID]uint32{}
	for id, step := range p.counts {
		n := r.counts[id] + step
		size, exists := r.sizes[id]
		if exists && !id.Layout().Interval && (n > int(size) || r.full[id]) { // intervals declare no size
			grown[id] = capacity(n)
		}
	}
	if len(grown) == 0 {
		return
	}
	all, chains := p.contents(r), r.chains()
	for id, size := range grown {
		p.sizes[id] = size
		p.edit.rebuild(id, size, all.of(id))
		for _, user := range id.readBy(chains, r.cache) {
			if o := (reference{chain: user}); user.Kind < baseChains || r.uses[o]+p.uses[o] > 0 {
				p.edit.rewriteChain(user)
			}
		}
	}
}

// contents returns the elements of the state after the change.
func (p *Plan) contents(r *Ruleset) *contents {
	next := r.frontends.clone()
	next.change(p.set, p.change.Removed)
	return next.contents(p.nodeElements(r))
}
