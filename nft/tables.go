package nft

import (
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// Tables is what the kernel holds, or should hold, under our name in each family; nil
// without a table.
type Tables [len(model.Families)]*Table

// A Table is the content of one table, by name.
type Table struct {
	// Dormant means that another program disabled the table: no packet reaches its chains.
	Dormant bool
	// Alien means that the table has something that kube-vmap never makes: an object other than the
	// Counters, a flowtable, or a chain that belongs to a rule.
	Alien bool
	// Protected means that the table has, or had, an owner. Owner is the netlink port of
	// the owner's socket, zero if that was closed. Foreign means that the owner is not the
	// socket passed to [Tables.MarkForeign].
	Protected bool
	Owner     uint32
	Foreign   bool
	Counters  [Counters]bool // which of them the table has
	Chains    map[string]ChainState
	Sets      map[string]SetState
}

// NewTable returns a table without content.
func NewTable() *Table {
	return &Table{Chains: map[string]ChainState{}, Sets: map[string]SetState{}}
}

// MarkForeign marks the tables whose owner is a socket with another port. It returns the
// same tables.
func (t Tables) MarkForeign(port uint32) Tables {
	for _, table := range t {
		if table != nil {
			table.Foreign = table.Owner != 0 && table.Owner != port
		}
	}
	return t
}

// Writable returns an error if another program owns a table and kube-vmap cannot change
// it. The error is [fs.ErrPermission].
func (t Tables) Writable() error {
	for f, state := range t {
		if state != nil && state.Foreign {
			return fmt.Errorf("table %s belongs to another program, with netlink port %d; does another kube-vmap run here?: %w",
				table(model.Family(f)), state.Owner, fs.ErrPermission)
		}
	}
	return nil
}

// Orphaned reports whether a table exists that has no owner.
func (t Tables) Orphaned() bool {
	return slices.ContainsFunc(t[:], func(state *Table) bool { return state != nil && state.Owner == 0 })
}

// MarkFull notes that a set accepts no more elements, whatever its size, and makes
// [Adopt] rebuild it.
func (t *Tables) MarkFull(id SetID) {
	if t[id.Family] == nil {
		return
	}
	if set, exists := t[id.Family].Sets[id.Name()]; exists {
		set.Shape.Size = 0
		t[id.Family].Sets[id.Name()] = set
	}
}

// EndpointOf returns the endpoint that an element of a slot has, or that its number maps
// to, and whether it found one.
func (t *Table) EndpointOf(id SetID, e *Element) (netip.AddrPort, bool) {
	if id.Kind != SetStickyNumbers {
		return e.Value.Endpoint, true
	}
	id.Kind = SetStickyEndpoints
	key := e.Key
	key.Pick = e.Value.Number
	list := t.Sets[id.Name()].Elements
	i, found := slices.BinarySearchFunc(list, key, func(e Element, k Key) int { return CompareKeys(e.Key, k) })
	if !found {
		return netip.AddrPort{}, false
	}
	return list[i].Value.Endpoint, true
}

// A ChainState is a chain: its hook, and the fingerprints of its rules in their order, zero
// for a rule of another program.
type ChainState struct {
	Hook  HookState
	Rules []Fingerprint
}

// A HookState is how a base chain is attached; it is zero for other chains.
type HookState struct {
	Type     string
	Number   uint32
	Priority int32
	Policy   uint32 // NF_ACCEPT or NF_DROP
}

// Hook returns how the chain should be attached.
func (id ChainID) Hook() HookState {
	h := id.Kind.hook()
	if h == nil {
		return HookState{}
	}
	return HookState{h.chainType, h.number, h.priority, policyAccept}
}

// policyAccept is NF_ACCEPT, the policy of all base chains.
const policyAccept = 1

// A SetState is a set or map. Elements are sorted by key. They are missing if Shape does not
// fit the set of that name.
type SetState struct {
	Shape    SetShape
	Elements []Element
}
