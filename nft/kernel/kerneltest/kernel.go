package kerneltest

import (
	"cmp"
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
func New() *Kernel { return &Kernel{} }

// tables are the tables by family; nil if there is none.
type tables [len(model.Families)]*table

// A table is the content of a table, by name.
type table struct {
	protected bool
	chains    map[string]*chain
	sets      map[string]*set
	counters  map[string]struct{}
}

func newTable() *table {
	return &table{chains: map[string]*chain{}, sets: map[string]*set{}, counters: map[string]struct{}{}}
}

// A chain is a chain with its rules.
type chain struct {
	hook  nft.HookState
	rules []rule
}

// A rule is what is kept of a rule: its fingerprint and its references.
type rule struct {
	fingerprint nft.Fingerprint
	chains      []string // including those in its anonymous map
	sets        []string
}

// A set is a set or map. Its elements are not kept if its name is not ours, because they
// are never read.
type set struct {
	shape    nft.SetShape
	elements map[nft.Key]element
	counted  map[nft.ConnectionCount]uint64 // of nft.SetConnections, by key: without the count
}

// An element is an element with the chain it leads to, if any.
type element struct {
	nft.Element
	chain string
}

// Read returns what the kernel holds.
func (k *Kernel) Read() (nft.Tables, error) {
	var out nft.Tables
	for _, f := range model.Families {
		t := k.tables[f]
		if t == nil {
			continue
		}
		out[f] = nft.NewTable()
		for c := range nft.Counters {
			_, out[f].Counters[c] = t.counters[c.String()]
		}
		if t.protected {
			out[f].Protected, out[f].Owner = true, 1
		}
		for name, c := range t.chains {
			state := nft.ChainState{Hook: c.hook}
			for _, r := range c.rules {
				state.Rules = append(state.Rules, r.fingerprint)
			}
			out[f].Chains[name] = state
		}
		for name, s := range t.sets {
			state := nft.SetState{Shape: s.shape}
			if id, known := nft.SetNamed(f, name); known && s.shape.Fits(id) && !id.IsDynamic() {
				state.Elements = s.list(id)
			}
			out[f].Sets[name] = state
		}
	}
	return out, nil
}

// list returns the elements as the kernel's reader does.
func (s *set) list(id nft.SetID) []nft.Element {
	var out []nft.Element
	for _, e := range s.elements {
		out = append(out, e.Element)
	}
	return wire.SortElements(id, out)
}

// sorted returns the keys in the order of their addresses, ends of intervals before
// beginnings.
func (s *set) sorted() []nft.Key {
	return slices.SortedFunc(maps.Keys(s.elements), func(a, b nft.Key) int {
		return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Bits, b.Bits))
	})
}

// Apply commits the batch, all of it or nothing.
func (k *Kernel) Apply(b nft.Batch) (a nft.Applied, err error) {
	a.Steps, err = b.CommitSteps(nft.StepElements, func(step nft.Batch) error {
		e, err := wire.Encode(step)
		if err != nil {
			return err
		}
		t := begin(k.tables)
		for _, m := range messages(e.Bytes) {
			if r := t.apply(m); r != nil {
				return e.Explain(m.sequence, uint32(r.offset), r.errno, "")
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

// A refusal is why a message is refused, and the offset in it that the kernel would report.
type refusal struct {
	errno  syscall.Errno
	offset int
}

// clone copies everything that a transaction may change. Rules never change.
func (t tables) clone() tables {
	for f, old := range t {
		if old == nil {
			continue
		}
		t[f] = newTable()
		t[f].protected = old.protected
		maps.Copy(t[f].counters, old.counters)
		for name, c := range old.chains {
			t[f].chains[name] = &chain{c.hook, slices.Clone(c.rules)}
		}
		for name, s := range old.sets {
			t[f].sets[name] = &set{s.shape, maps.Clone(s.elements), maps.Clone(s.counted)}
		}
	}
	return t
}
