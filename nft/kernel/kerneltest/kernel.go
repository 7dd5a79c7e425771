package kerneltest

import (
	"maps"
	"slices"
	"syscall"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// Kernel is a fake of the part of nf_tables that holds our tables. Like the real one it is
// not safe for concurrent use.
type Kernel struct {
	tables tables
}

// New returns a kernel without tables.
func New() *Kernel { return &Kernel{tables{newTable(), newTable()}} }

type tables [len(model.Families)]*table

// A table is the content of a table, by name. It is nil if the table does not exist.
type table struct {
	exists, protected bool
	chains            map[string]*chain
	sets              map[string]*set
	counters          map[string]bool
}

func newTable() *table {
	return &table{chains: map[string]*chain{}, sets: map[string]*set{}, counters: map[string]bool{}}
}

// A chain is a chain with its rules.
type chain struct {
	id    nft.ChainID
	rules []rule
}

// A rule is the part of a rule that is kept: its fingerprint and its references.
type rule struct {
	fingerprint nft.Fingerprint
	chains      []string // including those in its anonymous map
	sets        []string
}

// A set is a set or map.
type set struct {
	id       nft.SetID
	size     uint32
	elements map[nft.Key]nft.Element        // as they are read
	counted  map[nft.ConnectionCount]uint64 // of nft.SetConnections, by key: without the count
}

// Read returns what the kernel holds.
func (k *Kernel) Read() (nft.Tables, error) {
	var out nft.Tables
	for f, t := range k.tables {
		if t.exists {
			out[f] = t.read()
		}
	}
	return out, nil
}

func (t *table) read() *nft.Table {
	out := nft.NewTable()
	for c := range nft.Counters {
		out.Counters[c] = t.counters[c.String()]
	}
	if t.protected {
		out.Protected, out.Owner = true, 1
	}
	for name, c := range t.chains {
		state := nft.ChainState{Hook: c.id.Hook()}
		for _, r := range c.rules {
			state.Rules = append(state.Rules, r.fingerprint)
		}
		out.Chains[name] = state
	}
	for name, s := range t.sets {
		state := nft.SetState{Shape: s.id.Shape(s.size)}
		if !s.id.IsDynamic() {
			state.Elements = s.list()
		}
		out.Sets[name] = state
	}
	return out
}

func (s *set) list() []nft.Element {
	return nft.SortByKey(slices.Collect(maps.Values(s.elements)))
}

// Apply commits the batch, all of it or nothing.
func (k *Kernel) Apply(b nft.Batch) (a nft.Applied, err error) {
	a.Steps, _, err = b.CommitSteps(nft.StepElements, func(step nft.Batch) error {
		e, err := wire.Encode(step)
		if err != nil {
			return err
		}
		t := transaction{k.tables.clone(), map[*set]uint32{}}
		for _, op := range step {
			if element, errno := t.apply(op); errno != 0 {
				return refusal(op, element, errno)
			}
		}
		k.tables = t.commit()
		a.Messages += e.Messages
		a.Bytes += len(e.Bytes)
		return nil
	})
	return a, err
}

// ForeignChanges returns a constant: no other program can change this kernel.
func (k *Kernel) ForeignChanges() (uint32, error) { return 0, nil }

// refusal returns the error about an op, or about one of its elements.
func refusal(op nft.Op, e *nft.Element, errno syscall.Errno) *wire.Error {
	out := &wire.Error{Op: op, Element: e, Errno: errno}
	if e != nil && e.Service != nil {
		out.Service = *e.Service
	}
	return out
}

// clone copies everything that a transaction may change. Rules never change.
func (t tables) clone() tables {
	for f, old := range t {
		t[f] = &table{old.exists, old.protected, map[string]*chain{}, map[string]*set{}, maps.Clone(old.counters)}
		for name, c := range old.chains {
			t[f].chains[name] = &chain{c.id, slices.Clone(c.rules)}
		}
		for name, s := range old.sets {
			t[f].sets[name] = &set{s.id, s.size, maps.Clone(s.elements), maps.Clone(s.counted)}
		}
	}
	return t
}
