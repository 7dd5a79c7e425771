package nft

import (
	"fmt"
	"io/fs"
	"slices"

	"kube-vmap/model"
)

// Tables is what the kernel holds, or should hold, under our name in each
// family; nil where there is no table.
type Tables [len(model.Families)]*Table

// Table is the content of one table, by the names it has there.
type Table struct {
	// Dormant says that no packet reaches the table's chains: somebody switched
	// it off.
	Dormant bool
	// Protected says that the table was made to belong to a socket, and Owner to
	// which, by the number netlink knows it by: zero if that one was closed. Foreign
	// says that it is not the one through which the table was read.
	Protected bool
	Owner     uint32
	Foreign   bool
	// Counter says that the counter of clients not remembered is there.
	Counter bool
	Chains  map[string]ChainState
	Sets    map[string]SetState
}

// NewTable makes a table without content.
func NewTable() *Table {
	return &Table{Chains: map[string]ChainState{}, Sets: map[string]SetState{}}
}

// MarkForeign notes through which socket the tables were read.
func (t Tables) MarkForeign(port uint32) Tables {
	for _, table := range t {
		if table != nil {
			table.Foreign = table.Owner != 0 && table.Owner != port
		}
	}
	return t
}

// Writable returns an error if a table belongs to somebody else, so that nothing of
// it can be changed; it is [fs.ErrPermission].
func (t Tables) Writable() error {
	for f, state := range t {
		if state != nil && state.Foreign {
			return fmt.Errorf("table %s belongs to another program, with netlink port %d; does another kube-vmap run here?: %w",
				table(model.Family(f)), state.Owner, fs.ErrPermission)
		}
	}
	return nil
}

// Orphaned reports whether a table is there that belongs to nobody.
func (t Tables) Orphaned() bool {
	return slices.ContainsFunc(t[:], func(state *Table) bool { return state != nil && state.Owner == 0 })
}

// MarkFull notes that a set takes no more elements, whatever its size, so that it
// is made anew by [Adopt].
func (t *Tables) MarkFull(id SetID) {
	if t[id.Family] == nil {
		return
	}
	if set, exists := t[id.Family].Sets[id.Name()]; exists {
		set.Shape.Size = 0
		t[id.Family].Sets[id.Name()] = set
	}
}

// ChainState is a chain: where it hooks in, and its rules' fingerprints in
// their order, zero for a rule that is none of ours.
type ChainState struct {
	Hook  HookState
	Rules []Fingerprint
}

// HookState is how a base chain is attached; the zero value is a chain that is
// only reached from others.
type HookState struct {
	Type     string
	Number   uint32
	Priority int32
	Policy   uint32 // NF_ACCEPT or NF_DROP
}

// Hook is the state that a chain of that kind should have.
func (id ChainID) Hook() HookState {
	h := chainSchema[id.Kind].hook
	if h == nil {
		return HookState{}
	}
	return HookState{h.chainType, h.number, h.priority, policyAccept}
}

// policyAccept is NF_ACCEPT: what no rule refuses goes on.
const policyAccept = 1

// SetState is a set or map. Elements are those the layout of that name can
// describe, sorted by key; they are left out where Shape is not ours.
type SetState struct {
	Shape    SetShape
	Elements []Element
}
