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
	deleteTables []model.Family
	tables       []model.Family
	reclaimed    []model.Family // tables that exist and have no owner
	counters     []AddCounter
	elements     map[SetID]*elementEdit
	flushChains  []FlushChain
	deleteChains []DeleteChain
	deleteSets   []DeleteSet
	addSets      []AddSet
	addChains    []ChainID
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

// of returns the edit of one set.
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
	var b Batch
	for _, f := range e.deleteTables {
		b = append(b, DeleteTable{f})
	}
	for _, f := range e.tables {
		b = append(b, AddTable{Family: f, Protected: c.Protect})
	}
	for _, f := range e.reclaimed {
		b = append(b, AddTable{Family: f, Protected: c.Protect, Exists: true})
	}
	for _, op := range e.counters {
		b = append(b, op)
	}
	slices.SortFunc(e.flushChains, func(a, b FlushChain) int { return compareNamed(a.Family, a.Name, b.Family, b.Name) })
	for _, op := range e.flushChains {
		b = append(b, op)
	}
	sets := slices.SortedFunc(maps.Keys(e.elements), compareSets)
	for _, id := range sets {
		if removed := e.elements[id].remove; len(removed) > 0 {
			b = append(b, DeleteElements{id, sorted(removed)})
		}
	}
	slices.SortFunc(e.deleteSets, func(a, b DeleteSet) int { return compareNamed(a.Family, a.Name, b.Family, b.Name) })
	for _, op := range e.deleteSets {
		b = append(b, op)
	}
	slices.SortFunc(e.deleteChains, func(a, b DeleteChain) int { return compareNamed(a.Family, a.Name, b.Family, b.Name) })
	for _, op := range e.deleteChains {
		b = append(b, op)
	}
	slices.SortFunc(e.addSets, func(a, b AddSet) int { return compareSets(a.Set, b.Set) })
	for _, op := range e.addSets {
		b = append(b, op)
	}
	slices.SortFunc(e.addChains, compareChains)
	for _, id := range e.addChains {
		b = append(b, AddChain{id})
	}
	for _, id := range slices.SortedFunc(maps.Keys(e.rewrite), compareChains) {
		for _, r := range c.rules(id, has) {
			b = append(b, AddRule{id, r})
		}
	}
	return e.appendAdded(b, sets)
}

// appendAdded appends the new elements: data before dispatch, and those of one set together,
// for which the kernel then needs one transaction object only.
func (e *edit) appendAdded(b Batch, sets []SetID) Batch {
	for _, dispatching := range [...]bool{false, true} {
		for _, id := range sets {
			if (id.Layout().Content == ContentVerdict) != dispatching {
				continue
			}
			if added := e.elements[id].add; len(added) > 0 {
				b = append(b, AddElements{id, sorted(added)})
			}
			if refs := e.elements[id].refs; refs != nil {
				b = append(b, addFrontends(id, refs))
			}
		}
	}
	return b
}

// sorted orders elements by key. Most come in order already.
func sorted(elements []Element) []Element {
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

// compareNamed orders objects by name; those of other programs have nothing else.
func compareNamed(f model.Family, name string, g model.Family, other string) int {
	return cmp.Or(cmp.Compare(f, g), cmp.Compare(name, other))
}
