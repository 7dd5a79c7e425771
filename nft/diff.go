package nft

import (
	"slices"

	"kube-vmap/model"
)

// Tables returns the state as it should be read from the kernel.
func (r *Ruleset) Tables() Tables {
	var t Tables
	for _, f := range model.Families {
		t[f] = NewTable()
		t[f].Counters, t[f].Protected = [Counters]bool{true, true, true, true}, r.config.Protect
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

// diff returns the batch that changes the kernel's tables, whichever program wrote them, to
// the state and these elements.
func (r *Ruleset) diff(have Tables, want *contents) Batch {
	e := newEdit()
	for _, f := range model.Families {
		current := have[f]
		if current != nil && r.mustReplace(current) {
			e.deleteTables = append(e.deleteTables, DeleteTable{f})
			current = nil
		}
		if current == nil {
			current = NewTable()
			e.tables = append(e.tables, AddTable{Family: f, Protected: r.config.Protect})
		} else if current.Protected && current.Owner == 0 {
			e.reclaimed = append(e.reclaimed, AddTable{f, r.config.Protect, true})
		}
		for c, exists := range current.Counters {
			if !exists {
				e.counters = append(e.counters, AddCounter{f, Counter(c)})
			}
		}
		have[f] = current
	}
	rebuilt := r.diffSets(e, have, want)
	r.diffChains(e, have, rebuilt)
	return e.batch(&r.config, r.has)
}

// mustReplace reports whether a table cannot be changed into the desired one, or only by changes
// that nothing else needs. Kernels since 6.9 refuse to wake up a dormant table and to change a base
// chain in the same transaction (1bc83a019bbe), and no kernel changes whether an existing table is
// protected.
func (r *Ruleset) mustReplace(t *Table) bool {
	return t.Dormant || t.Alien || t.Protected != r.config.Protect
}

// diffSets compares sets and their elements. It returns those that must be rebuilt: all rules
// that read them must be rewritten.
func (r *Ruleset) diffSets(e *edit, have Tables, want *contents) map[SetID]bool {
	rebuilt := map[SetID]bool{}
	for id, size := range r.sizes {
		current, exists := have[id.Family].Sets[id.Name()]
		switch {
		case !exists:
			e.addSets = append(e.addSets, AddSet{id, size})
			e.fill(id, want)
		case current.Shape != id.Shape(size) || slices.ContainsFunc(current.Elements, hasNoKey):
			rebuilt[id] = true
			e.rebuild(id, size, want.of(id))
		default:
			diffElements(e, id, current.Elements, want.of(id))
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

// rebuild replaces a set by an empty one of another size and fills it. Its old elements are
// not deleted one by one: Linux 6.1.176 was seen to lose count of references if elements
// are deleted in one transaction with their set, and the transaction is rolled back. A
// kernel that releases the references of a deleted set too late (before 628bd3e49cba) fails
// the probe.
func (e *edit) rebuild(id SetID, size uint32, elements []Element) {
	e.deleteSets = append(e.deleteSets, DeleteSet{id.Family, id.Name()})
	e.addSets = append(e.addSets, AddSet{id, size})
	e.elements[id] = &elementEdit{add: elements}
}

// forget drops the changes of the elements of a set that is deleted, for the same reason.
func (e *edit) forget(id SetID) { delete(e.elements, id) }

// hasNoKey reports whether a [Key] cannot describe the element, which then cannot be deleted
// by its key: an element for all keys, a range that is not a prefix, or a pair of different
// pods in SetHairpin. Only other programs add such elements.
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
		current, exists := have[id.Family].Chains[id.Name()]
		switch {
		case !exists:
			e.newChain(id)
		case current.Hook != id.Hook():
			e.dropChain(id.Family, id.Name())
			e.newChain(id)
		case touched[id] || !slices.Equal(current.Rules, r.fingerprints(id)):
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
	e.addChains = append(e.addChains, AddChain{id})
	e.rewrite[id] = struct{}{}
}

// rewriteChain replaces the rules of a chain, once for any number of calls.
func (e *edit) rewriteChain(id ChainID) {
	if _, already := e.rewrite[id]; already {
		return
	}
	e.flushChains = append(e.flushChains, FlushChain{id.Family, id.Name()})
	e.rewrite[id] = struct{}{}
}

// rewriteReadersOf replaces the rules of the chain that depend on whether the set exists, because
// it is added or deleted. stays reports whether a chain exists before and after.
func (e *edit) rewriteReadersOf(id SetID, stays func(ChainID) bool) {
	rewrite := func(kinds ...ChainKind) {
		for _, kind := range kinds {
			if c := (ChainID{Family: id.Family, Kind: kind}); kind < baseChains || stays(c) {
				e.rewriteChain(c)
			}
		}
	}
	switch id.Kind {
	case SetAllowedSources, SetDeniedSources:
		rewrite(ChainSourceCheck, ChainNodePortCheck)
	case SetHeld:
		rewrite(ChainFilterOutput)
	case SetRefusals, SetRestrictedNodePorts:
		rewrite(ChainFilterPrerouting, ChainFilterOutputEarly)
	case SetAffinity:
		rewrite(ChainRetry)
	}
}

func (e *edit) dropChain(f model.Family, name string) {
	e.flushChains = append(e.flushChains, FlushChain{f, name})
	e.deleteChains = append(e.deleteChains, DeleteChain{f, name})
}
