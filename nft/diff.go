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
	}
	for id := range r.chains {
		state := ChainState{Hook: id.hookState()}
		for _, rule := range r.config.rules(id) {
			state.Rules = append(state.Rules, rule.Fingerprint())
		}
		t[id.Family].Chains[id.Name()] = state
	}
	for id, elements := range r.Elements() {
		for i := range elements {
			if !id.layout().comments {
				elements[i].Comment = ""
			}
		}
		t[id.Family].Sets[id.Name()] = SetState{Shape: id.shape(r.sizes[id]), Elements: elements}
	}
	return t
}

// diff is the batch that leads from what the kernel holds to the state, whoever
// put there what it holds.
func (r *Ruleset) diff(have Tables) Batch {
	e := newEdit()
	for _, f := range model.Families {
		if have[f] == nil {
			e.tables = append(e.tables, f)
			have[f] = NewTable()
		}
	}
	rebuilt := r.diffSets(e, have)
	r.diffChains(e, have, rebuilt)
	return e.batch(&r.config)
}

// diffSets compares sets and their elements. It returns those that must be made
// anew, with which goes every rule that reads them.
func (r *Ruleset) diffSets(e *edit, have Tables) map[SetID]bool {
	rebuilt := map[SetID]bool{}
	want := r.Elements()
	for id, size := range r.sizes {
		stands, exists := have[id.Family].Sets[id.Name()]
		switch {
		case !exists:
			e.addSets = append(e.addSets, AddSet{id, size})
			e.of(id).add = want[id]
		case stands.Shape != id.shape(size):
			rebuilt[id] = true
			e.rebuild(id, size, want[id])
		default:
			diffElements(e, id, stands.Elements, want[id])
		}
	}
	for f, t := range have {
		for name := range t.Sets {
			id, known := SetNamed(model.Family(f), name)
			if _, wanted := r.sizes[id]; !known || !wanted {
				e.deleteSets = append(e.deleteSets, DeleteSet{model.Family(f), name})
			}
		}
	}
	return rebuilt
}

// rebuild replaces a set by an empty one of another size and fills it.
func (e *edit) rebuild(id SetID, size uint32, elements []Element) {
	e.deleteSets = append(e.deleteSets, DeleteSet{id.Family, id.Name()})
	e.addSets = append(e.addSets, AddSet{id, size})
	e.elements[id] = &elementEdit{add: elements}
}

// diffElements walks both sorted lists once.
func diffElements(e *edit, id SetID, have, want []Element) {
	comments := id.layout().comments
	for len(have) > 0 || len(want) > 0 {
		order := -1
		switch {
		case len(have) == 0:
			order = 1
		case len(want) > 0:
			order = compareKeys(have[0].Key, want[0].Key)
		}
		switch {
		case order < 0:
			e.of(id).remove = append(e.of(id).remove, have[0])
			have = have[1:]
		case order > 0:
			e.of(id).add = append(e.of(id).add, want[0])
			want = want[1:]
		default:
			if have[0].Value != want[0].Value || comments && have[0].Comment != kernelComment(want[0].Comment) {
				e.of(id).remove = append(e.of(id).remove, have[0])
				e.of(id).add = append(e.of(id).add, want[0])
			}
			have, want = have[1:], want[1:]
		}
	}
}

// diffChains compares chains and their rules.
func (r *Ruleset) diffChains(e *edit, have Tables, rebuilt map[SetID]bool) {
	touched := map[ChainID]bool{}
	for id := range rebuilt {
		for _, user := range r.users(id) {
			touched[user] = true
		}
	}
	for id := range r.chains {
		stands, exists := have[id.Family].Chains[id.Name()]
		switch {
		case !exists:
			e.newChain(id)
		case stands.Hook != id.hookState():
			e.dropChain(id.Family, id.Name())
			e.newChain(id)
		case touched[id] || !slices.Equal(stands.Rules, r.fingerprints(id)):
			e.rewriteChain(id)
		}
	}
	for f, t := range have {
		for name := range t.Chains {
			if _, wanted := r.chains[chainNamed(model.Family(f), name)]; !wanted {
				e.dropChain(model.Family(f), name)
			}
		}
	}
}

func (r *Ruleset) fingerprints(id ChainID) []Fingerprint {
	var out []Fingerprint
	for _, rule := range r.config.rules(id) {
		out = append(out, rule.Fingerprint())
	}
	return out
}

func (e *edit) newChain(id ChainID) {
	e.addChains = append(e.addChains, id)
	e.rewrite = append(e.rewrite, id)
}

func (e *edit) rewriteChain(id ChainID) {
	e.flushChains = append(e.flushChains, FlushChain{id.Family, id.Name()})
	e.rewrite = append(e.rewrite, id)
}

func (e *edit) dropChain(f model.Family, name string) {
	e.flushChains = append(e.flushChains, FlushChain{f, name})
	e.deleteChains = append(e.deleteChains, DeleteChain{f, name})
}

// Remove is the batch that removes our tables, empty if there are none.
func Remove(have Tables) Batch {
	var b Batch
	for _, f := range model.Families {
		if have[f] != nil {
			b = append(b, DeleteTable{f})
		}
	}
	return b
}
