package kerneltest

import (
	"slices"
	"syscall"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft"
)

// A transaction is a batch that is being applied.
type transaction struct {
	tables tables // as the batch leaves them
	// resized are existing sets that were declared again: they get their new size with the
	// commit.
	resized map[*set]uint32
}

// commit ends the transaction and returns the new tables.
func (t *transaction) commit() tables {
	for s, size := range t.resized {
		s.size = size
	}
	return t.tables
}

// apply applies one change, or returns why it is refused, and which of several elements is.
func (t *transaction) apply(op nft.Op) (*nft.Element, syscall.Errno) {
	switch op := op.(type) {
	case nft.AddTable:
		if table := t.tables[op.Family]; !table.exists {
			table.exists, table.protected = true, op.Protected
		}
	case nft.DeleteTable:
		if !t.tables[op.Family].exists {
			return nil, unix.ENOENT
		}
		t.tables[op.Family] = newTable()
	case nft.AddElements:
		return t.tables[op.Set.Family].addElements(op.Set, op.Elements)
	case nft.AddFrontends:
		return t.tables[op.Set.Family].addElements(op.Set, op.Elements())
	case nft.DeleteElements:
		return t.tables[op.Set.Family].deleteElements(op.Set, op.Elements)
	default:
		return nil, t.applyWhole(op)
	}
	return nil, 0
}

// applyWhole applies a change that is accepted or refused as a whole.
func (t *transaction) applyWhole(op nft.Op) syscall.Errno {
	switch op := op.(type) {
	case nft.AddCounter:
		return t.tables[op.Family].addCounter(op.Counter)
	case nft.AddSet:
		return t.addSet(op)
	case nft.DeleteSet:
		return t.tables[op.Family].deleteSet(op.Name)
	case nft.AddChain:
		return t.tables[op.Chain.Family].addChain(op.Chain)
	case nft.FlushChain:
		return t.tables[op.Family].flushChain(op.Name)
	case nft.DeleteChain:
		return t.tables[op.Family].deleteChain(op.Name)
	case nft.AddRule:
		return t.tables[op.Chain.Family].addRule(op.Chain.Name(), op.Rule)
	case nft.AddConnections:
		return t.tables[op.Family].connections(op.Family).addCounted(op.List)
	case nft.DeleteConnections:
		return t.tables[op.Family].connections(op.Family).deleteCounted(op.List)
	}
	return 0 // about other tables
}

func (t *table) addCounter(c nft.Counter) syscall.Errno {
	if !t.exists {
		return unix.ENOENT
	}
	t.counters[c.String()] = true
	return 0
}

// addSet declares a set. An existing one keeps its elements.
func (t *transaction) addSet(op nft.AddSet) syscall.Errno {
	table, name, size := t.tables[op.Set.Family], op.Set.Name(), op.Set.Shape(op.Size).Size
	known := table.sets[name]
	switch {
	case !table.exists:
		return unix.ENOENT
	case known == nil:
		table.sets[name] = &set{op.Set, size, map[nft.Key]nft.Element{}, map[nft.ConnectionCount]uint64{}}
	case size > 0:
		t.resized[known] = size
	}
	return 0
}

// deleteSet removes a set with its elements, unless a rule uses it.
func (t *table) deleteSet(name string) syscall.Errno {
	if t.sets[name] == nil {
		return unix.ENOENT
	}
	for _, c := range t.chains {
		if slices.ContainsFunc(c.rules, func(r rule) bool { return slices.Contains(r.sets, name) }) {
			return unix.EBUSY
		}
	}
	delete(t.sets, name)
	return 0
}

// addChain adds a chain. An existing one keeps its rules.
func (t *table) addChain(id nft.ChainID) syscall.Errno {
	if !t.exists {
		return unix.ENOENT
	}
	if t.chains[id.Name()] == nil {
		t.chains[id.Name()] = &chain{id: id}
	}
	return 0
}

func (t *table) flushChain(name string) syscall.Errno {
	c := t.chains[name]
	if c == nil {
		return unix.ENOENT
	}
	c.rules = nil
	return 0
}

// deleteChain removes a chain with its rules, unless something jumps to it.
func (t *table) deleteChain(name string) syscall.Errno {
	deleted := t.chains[name]
	if deleted == nil {
		return unix.ENOENT
	}
	for _, c := range t.chains {
		leads := func(r rule) bool { return slices.Contains(r.chains, name) }
		if c != deleted && slices.ContainsFunc(c.rules, leads) {
			return unix.EBUSY
		}
	}
	for _, s := range t.sets {
		for _, e := range s.elements {
			if e.Value.Verdict == nft.VerdictGoto && e.Value.Chain == deleted.id {
				return unix.EBUSY
			}
		}
	}
	delete(t.chains, name)
	return 0
}

// checkTarget returns an error if nothing may jump to the chain.
func (t *table) checkTarget(name string) syscall.Errno {
	c := t.chains[name]
	switch {
	case c == nil:
		return unix.ENOENT
	case c.id.Hook() != nft.HookState{}:
		return unix.EOPNOTSUPP
	}
	return 0
}

// addRule appends a rule to its chain.
func (t *table) addRule(chain string, r nft.Rule) syscall.Errno {
	c := t.chains[chain]
	if c == nil {
		return unix.ENOENT
	}
	kept := rule{fingerprint: r.Fingerprint()}
	for i := range r {
		if errno := t.addReferences(&r[i], &kept); errno != 0 {
			return errno
		}
	}
	c.rules = append(c.rules, kept)
	return 0
}

// addReferences adds the references of a statement to its rule, if their objects exist.
func (t *table) addReferences(s *nft.Statement, r *rule) syscall.Errno {
	before := len(r.chains)
	for _, id := range s.Choices {
		r.chains = append(r.chains, id.Name())
	}
	for _, x := range s.Expressions {
		name := ""
		switch x := x.(type) {
		case *expr.Verdict:
			if x.Chain != "" {
				r.chains = append(r.chains, x.Chain)
			}
		case *expr.Lookup:
			if !s.HasSet() {
				name = x.SetName
			}
		case *expr.Dynset:
			name = x.SetName
		case *expr.Objref:
			if !t.counters[x.Name] {
				return unix.ENOENT
			}
		}
		if name == "" {
			continue
		}
		if t.sets[name] == nil {
			return unix.ENOENT
		}
		r.sets = append(r.sets, name)
	}
	for _, name := range r.chains[before:] {
		if errno := t.checkTarget(name); errno != 0 {
			return errno
		}
	}
	return 0
}
