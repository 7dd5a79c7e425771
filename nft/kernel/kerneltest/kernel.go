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

// Kernel is a fake of the part of nf_tables that holds our tables. Like the real
// one it is not safe for use by several goroutines.
type Kernel struct {
	tables tables
}

// New makes a kernel without tables.
func New() *Kernel { return &Kernel{} }

// tables are those of each family; nil where there is none.
type tables [len(model.Families)]*table

// table is what a table holds, by name.
type table struct {
	protected bool
	chains    map[string]*chain
	sets      map[string]*set
	counters  map[string]struct{}
}

func newTable() *table {
	return &table{chains: map[string]*chain{}, sets: map[string]*set{}, counters: map[string]struct{}{}}
}

// chain is a chain with its rules.
type chain struct {
	hook  nft.HookState
	rules []rule
}

// rule is what is kept of a rule: its fingerprint and what it refers to.
type rule struct {
	fingerprint nft.Fingerprint
	chains      []string // with those its anonymous map leads to
	sets        []string
}

// set is a set or map. It is empty where its name is none of ours, because
// nobody reads such elements.
type set struct {
	shape    nft.SetShape
	elements map[nft.Key]element
	counted  map[nft.ConnectionCount]uint64 // of nft.SetConnections, by what it is but for how many
}

// element is an element with the chain it leads to, if any.
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
		out[f].Counter = len(t.counters) > 0
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

// list is what the set holds as the kernel's reader gives it.
func (s *set) list(id nft.SetID) []nft.Element {
	var out []nft.Element
	for _, e := range s.elements {
		out = append(out, e.Element)
	}
	return wire.SortElements(id, out)
}

// sorted are the elements in the order of their addresses, ends of intervals
// before beginnings.
func (s *set) sorted() []nft.Key {
	return slices.SortedFunc(maps.Keys(s.elements), func(a, b nft.Key) int {
		return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Bits, b.Bits))
	})
}

// Apply takes the batch whole or not at all.
func (k *Kernel) Apply(b nft.Batch) (nft.Applied, error) {
	var a nft.Applied
	for _, step := range b.Steps(nft.StepElements) {
		e, err := wire.Encode(step)
		if err != nil {
			return a, err
		}
		t := begin(k.tables)
		for _, m := range messages(e.Bytes) {
			if r := t.apply(m); r != nil {
				return a, e.Explain(m.sequence, uint32(r.offset), r.errno, "")
			}
		}
		k.tables = t.commit()
		a.Steps++
		a.Messages += e.Messages
		a.Bytes += len(e.Bytes)
	}
	return a, nil
}

// ForeignChanges is always the same: nobody else can change what this kernel holds.
func (k *Kernel) ForeignChanges() (uint32, error) { return 0, nil }

// refuseService is why a message is refused, and at which place of it.
type refusal struct {
	errno  syscall.Errno
	offset int
}

// clone copies all that a transaction may change. Rules are never changed.
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
