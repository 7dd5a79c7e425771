package nft

import (
	"slices"

	"kube-vmap/model"
)

// Tables is the state as the kernel should show it.
func (r *Ruleset) Tables() Tables {
	var t Tables
	for _, f := range model.Families {
		t[f] = NewTable()
		t[f].Counter, t[f].Protected = true, r.config.Protect
	}
	for _, id := range r.chains() {
		t[id.Family].Chains[id.Name()] = ChainState{Hook: id.Hook(), Rules: r.fingerprints(id)}
	}
	for id, elements := range r.Elements() {
		for i := range elements {
			e := &elements[i]
			if e.Service != nil && id.Layout().Comments {
				e.Comment = string(e.AppendComment(nil))
			}
			e.Service = nil
		}
		t[id.Family].Sets[id.Name()] = SetState{Shape: id.Shape(r.sizes[id]), Elements: elements}
	}
	return t
}

// diff is the batch that leads from what the kernel holds to the state, which
// wants these elements, whoever put there what it holds.
func (r *Ruleset) diff(have Tables, want *contents) Batch {
	e := newEdit()
	for _, f := range model.Families {
		stands := have[f]
		if stands != nil && r.mustReplace(stands) {
			e.deleteTables = append(e.deleteTables, f)
			stands = nil
		}
		if stands == nil {
			stands = NewTable()
			e.tables = append(e.tables, f)
		} else if stands.Protected && stands.Owner == 0 {
			e.reclaimed = append(e.reclaimed, f)
		}
		if !stands.Counter {
			e.counters = append(e.counters, f)
		}
		have[f] = stands
	}
	rebuilt := r.diffSets(e, have, want)
	r.diffChains(e, have, rebuilt)
	return e.batch(&r.config, r.has)
}

// mustReplace reports whether a table is such as no change can make it what it
// should be. A dormant one could be woken up, were it not for kernels since 6.9,
// which refuse to change a base chain in the same transaction (1bc83a019bbe); one
// that stands cannot become protected, or cease to be.
func (r *Ruleset) mustReplace(t *Table) bool {
	return t.Dormant || t.Protected != r.config.Protect
}

// diffSets compares sets and their elements. It returns those that must be made
// anew, with which goes every rule that reads them.
func (r *Ruleset) diffSets(e *edit, have Tables, want *contents) map[SetID]bool {
	rebuilt := map[SetID]bool{}
	for id, size := range r.sizes {
		stands, exists := have[id.Family].Sets[id.Name()]
		switch {
		case !exists:
			e.addSets = append(e.addSets, AddSet{id, size})
			e.fill(id, want)
		case stands.Shape != id.Shape(size) || slices.ContainsFunc(stands.Elements, hasNoKey):
			rebuilt[id] = true
			e.rebuild(id, size, want.of(id))
		default:
			diffElements(e, id, stands.Elements, want.of(id))
		}
	}
	for f, t := range have {
		for name := range t.Sets {
			id, known := SetNamed(model.Family(f), name)
			if _, wanted := r.sizes[id]; known && wanted {
				continue
			}
			e.deleteSets = append(e.deleteSets, DeleteSet{model.Family(f), name})
		}
	}
	return rebuilt
}

// rebuild replaces a set by an empty one of another size and fills it. What it held
// goes with it: Linux 6.1.176 was seen to lose count of what elements lead to if they
// are deleted in one transaction with their set, and that is taken back. A kernel that
// does not know in time that a set which goes leads nowhere any more (before
// 628bd3e49cba) fails the probe, which says so.
func (e *edit) rebuild(id SetID, size uint32, elements []Element) {
	e.deleteSets = append(e.deleteSets, DeleteSet{id.Family, id.Name()})
	e.addSets = append(e.addSets, AddSet{id, size})
	e.elements[id] = &elementEdit{add: elements}
}

// forget leaves out what is to be done to the elements of a set that goes, for the
// same reason.
func (e *edit) forget(id SetID) { delete(e.elements, id) }

// hasNoKey reports whether an element is of a kind we never make, so that we
// cannot name it to delete it: one for all keys, a range that is no prefix, or
// one that leads from a pod to another.
func hasNoKey(e Element) bool { return e.Key == Key{} }

// diffElements walks both sorted lists once.
func diffElements(e *edit, id SetID, have, want []Element) {
	comments := id.Layout().Comments
	for len(have) > 0 || len(want) > 0 {
		order := -1
		switch {
		case len(have) == 0:
			order = 1
		case len(want) > 0:
			order = CompareKeys(have[0].Key, want[0].Key)
		}
		switch {
		case order < 0:
			e.of(id).remove = append(e.of(id).remove, have[0])
			have = have[1:]
		case order > 0:
			e.of(id).add = append(e.of(id).add, want[0])
			want = want[1:]
		default:
			if have[0].Value != want[0].Value || comments && !sameComment(&have[0], &want[0]) {
				e.of(id).remove = append(e.of(id).remove, have[0])
				e.of(id).add = append(e.of(id).add, want[0])
			}
			have, want = have[1:], want[1:]
		}
	}
}

// diffChains compares chains and their rules.
func (r *Ruleset) diffChains(e *edit, have Tables, rebuilt map[SetID]bool) {
	touched, chains := map[ChainID]bool{}, r.chains()
	for id := range rebuilt {
		for _, user := range id.readBy(chains, r.cache) {
			touched[user] = true
		}
	}
	wanted := make(map[ChainID]bool, len(chains))
	for _, id := range chains {
		wanted[id] = true
		stands, exists := have[id.Family].Chains[id.Name()]
		switch {
		case !exists:
			e.newChain(id)
		case stands.Hook != id.Hook():
			e.dropChain(id.Family, id.Name())
			e.newChain(id)
		case touched[id] || !slices.Equal(stands.Rules, r.fingerprints(id)):
			e.rewriteChain(id)
		}
	}
	for f, t := range have {
		for name := range t.Chains {
			if !wanted[ChainNamed(model.Family(f), name)] {
				e.dropChain(model.Family(f), name)
			}
		}
	}
}

func (r *Ruleset) fingerprints(id ChainID) []Fingerprint {
	var out []Fingerprint
	for _, rule := range r.rules(id) {
		out = append(out, rule.Fingerprint())
	}
	return out
}

func (e *edit) newChain(id ChainID) {
	e.addChains = append(e.addChains, id)
	e.rewrite[id] = struct{}{}
}

// rewriteChain replaces the rules of a chain, once, for however many reasons.
func (e *edit) rewriteChain(id ChainID) {
	if _, already := e.rewrite[id]; already {
		return
	}
	e.flushChains = append(e.flushChains, FlushChain{id.Family, id.Name()})
	e.rewrite[id] = struct{}{}
}

// rewriteReadersOf replaces the rules of the chain that looks into each set of a kind
// that there is, because the set comes or goes.
func (e *edit) rewriteReadersOf(id SetID) {
	if id.Kind == SetAllowedSources {
		e.rewriteChain(ChainID{Family: id.Family, Kind: ChainSourceCheck})
	}
}

func (e *edit) dropChain(f model.Family, name string) {
	e.flushChains = append(e.flushChains, FlushChain{f, name})
	e.deleteChains = append(e.deleteChains, DeleteChain{f, name})
}
