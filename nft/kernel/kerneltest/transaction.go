package kerneltest

import (
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// A transaction is a batch that is being applied.
type transaction struct {
	tables tables // as the batch leaves them
	// anonymous are the anonymous maps and sets that wait for their rule: the chains they
	// lead to, by their number within the batch.
	anonymous map[uint32][]string
	// resized are existing sets that were declared again: they get their new size with the
	// commit.
	resized map[*set]uint32
}

func begin(t tables) *transaction {
	return &transaction{tables: t.clone(), anonymous: map[uint32][]string{}, resized: map[*set]uint32{}}
}

// commit ends the transaction and returns the new tables.
func (t *transaction) commit() tables {
	for s, size := range t.resized {
		s.shape.Size = size
	}
	return t.tables
}

// apply applies one message, or returns why it is refused.
func (t *transaction) apply(m message) *refusal {
	a := m.attributes()
	switch m.kind {
	case unix.NFT_MSG_NEWTABLE:
		if t.tables[m.family] == nil {
			t.tables[m.family] = newTable()
			t.tables[m.family].protected = a.get(unix.NFTA_TABLE_FLAGS).number() != 0
		}
		return nil
	case unix.NFT_MSG_DELTABLE:
		if t.tables[m.family] == nil {
			return &refusal{unix.ENOENT, a.get(unix.NFTA_TABLE_NAME).offset}
		}
		t.tables[m.family] = nil
		return nil
	}
	table := t.tables[m.family]
	if table == nil { // everything else names its table first
		return &refusal{unix.ENOENT, a[0].offset}
	}
	switch m.kind {
	case unix.NFT_MSG_NEWOBJ:
		table.counters[a.get(unix.NFTA_OBJ_NAME).text()] = struct{}{}
		return nil
	case unix.NFT_MSG_NEWSET:
		return t.newSet(table, m, a)
	case unix.NFT_MSG_DELSET:
		return table.deleteSet(a.get(unix.NFTA_SET_NAME))
	case unix.NFT_MSG_NEWCHAIN:
		return table.newChain(m, a.get(unix.NFTA_CHAIN_NAME))
	case unix.NFT_MSG_DELCHAIN:
		return table.deleteChain(a.get(unix.NFTA_CHAIN_NAME))
	case unix.NFT_MSG_NEWRULE:
		return t.newRule(table, m, a)
	case unix.NFT_MSG_DELRULE:
		return table.flushChain(a.get(unix.NFTA_RULE_CHAIN))
	case unix.NFT_MSG_NEWSETELEM:
		return t.newElements(table, m, a)
	case unix.NFT_MSG_DELSETELEM:
		return table.deleteElements(m, a)
	}
	return &refusal{unix.EINVAL, 0}
}

// newSet declares a set. An existing one keeps its elements.
func (t *transaction) newSet(table *table, m message, a attributes) *refusal {
	name := a.get(unix.NFTA_SET_NAME)
	if strings.HasSuffix(name.text(), "%d") {
		t.anonymous[a.get(unix.NFTA_SET_ID).number()] = nil
		return nil
	}
	shape := decoded(m).Sets[name.text()].Shape
	known := table.sets[name.text()]
	if known == nil {
		table.sets[name.text()] = &set{shape, map[nft.Key]element{}, map[nft.ConnectionCount]uint64{}}
		return nil
	}
	same := known.shape
	same.Size = shape.Size
	if same != shape {
		return &refusal{unix.EEXIST, name.offset}
	}
	if shape.Size > 0 {
		t.resized[known] = shape.Size
	}
	return nil
}

// decoded returns what the message adds, as package nft decodes it.
func decoded(m message) *nft.Table {
	var t nft.Tables
	if err := wire.Decode(&t, m.family, m.kind, m.data); err != nil {
		panic("kerneltest: message that cannot be decoded: " + err.Error())
	}
	if t[m.family] == nil {
		panic("kerneltest: message about another table")
	}
	return t[m.family]
}

// newRule appends a rule to its chain.
func (t *transaction) newRule(table *table, m message, a attributes) *refusal {
	name := a.get(unix.NFTA_RULE_CHAIN)
	c := table.chains[name.text()]
	if c == nil {
		return &refusal{unix.ENOENT, name.offset}
	}
	r := rule{fingerprint: decoded(m).Chains[name.text()].Rules[0]}
	for _, x := range a.get(unix.NFTA_RULE_EXPRESSIONS).nested() {
		if errno := t.addReferences(table, x.nested(), &r); errno != 0 {
			return &refusal{errno, x.offset}
		}
	}
	c.rules = append(c.rules, r)
	return nil
}

// addReferences adds the references of an expression to its rule.
func (t *transaction) addReferences(table *table, expression attributes, r *rule) syscall.Errno {
	data := expression.get(unix.NFTA_EXPR_DATA).nested()
	switch expression.get(unix.NFTA_EXPR_NAME).text() {
	case "immediate":
		chain := data.get(unix.NFTA_IMMEDIATE_DATA).target()
		if chain.value == nil {
			return 0
		}
		r.chains = append(r.chains, chain.text())
		return table.checkTarget(chain.text())
	case "lookup":
		name := data.get(unix.NFTA_LOOKUP_SET).text()
		if chains, ok := t.anonymous[data.get(unix.NFTA_LOOKUP_SET_ID).number()]; ok {
			r.chains = append(r.chains, chains...)
			return 0
		}
		return table.addSetReference(name, r)
	case "dynset":
		return table.addSetReference(data.get(unix.NFTA_DYNSET_SET_NAME).text(), r)
	case "objref":
		if _, known := table.counters[data.get(unix.NFTA_OBJREF_IMM_NAME).text()]; !known {
			return unix.ENOENT
		}
	}
	return 0
}

// addSetReference notes that a rule uses a set.
func (t *table) addSetReference(set string, r *rule) syscall.Errno {
	if t.sets[set] == nil {
		return unix.ENOENT
	}
	r.sets = append(r.sets, set)
	return 0
}

// checkTarget returns an error if nothing may lead to the chain.
func (t *table) checkTarget(name string) syscall.Errno {
	c := t.chains[name]
	switch {
	case c == nil:
		return unix.ENOENT
	case c.hook != nft.HookState{}:
		return unix.EOPNOTSUPP
	}
	return 0
}

// newChain adds a chain. An existing one keeps its rules.
func (t *table) newChain(m message, name attribute) *refusal {
	hook := decoded(m).Chains[name.text()].Hook
	known := t.chains[name.text()]
	switch {
	case known == nil:
		t.chains[name.text()] = &chain{hook: hook}
	case hook != nft.HookState{} && known.hook != hook:
		return &refusal{unix.EEXIST, name.offset}
	}
	return nil
}

func (t *table) flushChain(name attribute) *refusal {
	c := t.chains[name.text()]
	if c == nil {
		return &refusal{unix.ENOENT, name.offset}
	}
	c.rules = nil
	return nil
}

// deleteChain removes a chain with its rules, unless something leads to it.
func (t *table) deleteChain(name attribute) *refusal {
	if t.chains[name.text()] == nil {
		return &refusal{unix.ENOENT, name.offset}
	}
	for other, c := range t.chains {
		leads := func(r rule) bool { return slices.Contains(r.chains, name.text()) }
		if other != name.text() && slices.ContainsFunc(c.rules, leads) {
			return &refusal{unix.EBUSY, name.offset}
		}
	}
	for _, s := range t.sets {
		for _, e := range s.elements {
			if e.chain == name.text() {
				return &refusal{unix.EBUSY, name.offset}
			}
		}
	}
	delete(t.chains, name.text())
	return nil
}

// deleteSet removes a set with its elements, unless a rule uses it.
func (t *table) deleteSet(name attribute) *refusal {
	if t.sets[name.text()] == nil {
		return &refusal{unix.ENOENT, name.offset}
	}
	for _, c := range t.chains {
		reads := func(r rule) bool { return slices.Contains(r.sets, name.text()) }
		if slices.ContainsFunc(c.rules, reads) {
			return &refusal{unix.EBUSY, name.offset}
		}
	}
	delete(t.sets, name.text())
	return nil
}
