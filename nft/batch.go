package nft

import (
	"strings"
	"time"

	"kube-vmap/model"
)

// Batch is a list of changes that the kernel takes whole or not at all, in the
// order in which it must see them.
type Batch []Op

// Op is one change of a [Batch].
type Op interface {
	// String is the nft command that does the same.
	String() string
	encode(*encoder)
}

// AddTable makes our table; if it is there already nothing happens, but that one
// which is to be protected and has lost its owner gets one again.
type AddTable struct {
	Family model.Family
	// Protected makes the table belong to the socket it comes through, so that no
	// other program can change it, and stay when that is closed.
	Protected bool
	// Stands tells that the table is there, and only lacks its owner.
	Stands bool
}

// DeleteTable removes our table with all it holds.
type DeleteTable struct{ Family model.Family }

// AddCounter makes the counter of connections whose client could not be
// remembered; if it is there already nothing happens.
type AddCounter struct{ Family model.Family }

// AddSet declares a set or map for up to Size elements.
type AddSet struct {
	Set  SetID
	Size uint32
}

// DeleteSet removes a set that no rule refers to any more.
type DeleteSet struct {
	Family model.Family
	Name   string
}

// AddChain makes a chain without rules.
type AddChain struct{ Chain ChainID }

// FlushChain removes the rules of a chain.
type FlushChain struct {
	Family model.Family
	Name   string
}

// DeleteChain removes a chain that nothing refers to any more.
type DeleteChain struct {
	Family model.Family
	Name   string
}

// AddRule appends a rule to a chain.
type AddRule struct {
	Chain ChainID
	Rule  Rule
}

// AddElements adds elements to a set.
type AddElements struct {
	Set      SetID
	Elements []Element
}

// DeleteElements removes elements from a set; only their keys count.
type DeleteElements struct {
	Set      SetID
	Elements []Element
}

// String is the batch as nft commands, one a line.
func (b Batch) String() string {
	var s strings.Builder
	for _, op := range b {
		s.WriteString(op.String())
		s.WriteByte('\n')
	}
	return s.String()
}

// MarshalText makes a batch readable in logs of any format.
func (b Batch) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// Counts is the size of a batch in the units a person thinks in.
type Counts struct {
	Added, Deleted int // elements
	Objects        int // tables, sets, chains and rules that come or go
}

// Counts sums up what the batch changes.
func (b Batch) Counts() Counts {
	var c Counts
	for _, op := range b {
		switch op := op.(type) {
		case AddElements:
			c.Added += len(op.Elements)
		case AddEndpoints:
			c.Added += len(op.slots)
		case DeleteElements:
			c.Deleted += len(op.Elements)
		case AddCounted:
			c.Added += len(op.List)
		case DeleteCounted:
			c.Deleted += len(op.List)
		case FlushChain: // rules that go with it are not listed
		default:
			c.Objects++
		}
	}
	return c
}

// Applied says what it took to apply a batch.
type Applied struct {
	Steps    int // transactions; more than one only where [Batch.Steps] says so
	Messages int
	Bytes    int
	// Kernel is the time spent in the kernel, Took includes the encoding.
	Kernel, Took time.Duration
}

// StepElements is how many elements one step of a first load carries. It bounds
// the memory that the batch and, while any program listens to nftables events,
// the kernel's notifications take.
const StepElements = 50_000

// Steps splits the batch of a first load that is too large for one transaction.
// All but the last step only fill maps that no packet reaches yet; the last
// one holds every chain, rule and dispatching element, so that for traffic it is
// still one switch. Any other batch is one step.
//
// A table that stands gets its owner back in a step of its own if a base chain comes
// with it, which the kernel refuses in the same transaction (nf_tables_addchain,
// __NFT_TABLE_F_UPDATE).
func (b Batch) Steps(limit int) []Batch {
	if take, rest := b.repossession(); take != nil {
		return append([]Batch{take}, rest.Steps(limit)...)
	}
	if b.Counts().Added <= limit || !b.firstLoad() {
		return []Batch{b}
	}
	var declare, last Batch
	var steps []Batch
	step, room := Batch{}, limit
	for _, op := range b {
		switch {
		case fillsWithEndpoints(op):
			for op != nil {
				var part Op
				part, op = divide(op, room)
				step = append(step, part)
				if room -= (Batch{part}).Counts().Added; room == 0 {
					steps, step, room = append(steps, step), Batch{}, limit
				}
			}
		case isDeclaration(op):
			declare = append(declare, op)
		default:
			last = append(last, op)
		}
	}
	last = append(step, last...)
	if len(steps) == 0 {
		return []Batch{append(declare, last...)}
	}
	steps[0] = append(declare, steps[0]...)
	return append(steps, last)
}

// repossession takes out of the batch what gives tables an owner, where that must come
// before the rest.
func (b Batch) repossession() (take, rest Batch) {
	hooks := false
	for _, op := range b {
		switch op := op.(type) {
		case AddTable:
			if op.Stands {
				take = append(take, op)
				continue
			}
		case AddChain:
			hooks = hooks || chainSchema[op.Chain.Kind].hook != nil
		}
		rest = append(rest, op)
	}
	if !hooks {
		return nil, b
	}
	return take, rest
}

// fillsWithEndpoints reports whether the op only adds endpoints to maps.
func fillsWithEndpoints(op Op) bool {
	switch op := op.(type) {
	case AddElements:
		return op.Set.layout().content == contentEndpoint
	case AddEndpoints:
		return true
	}
	return false
}

// divide takes the first elements from an op that adds some, at most n; the rest is
// nil if nothing is left.
func divide(op Op, n int) (first, rest Op) {
	switch op := op.(type) {
	case AddElements:
		if len(op.Elements) > n {
			return AddElements{op.Set, op.Elements[:n]}, AddElements{op.Set, op.Elements[n:]}
		}
	case AddEndpoints:
		if len(op.slots) > n {
			return AddEndpoints{op.Set, op.slots[:n]}, AddEndpoints{op.Set, op.slots[n:]}
		}
	}
	return op, nil
}

// firstLoad reports whether the batch only adds, and for each family that it fills
// also the chain through which packets come: what it adds is reached by none before
// that stands. So is what is left of a load that ended between two steps.
func (b Batch) firstLoad() bool {
	var fills, enters [len(model.Families)]bool
	for _, op := range b {
		switch op := op.(type) {
		case AddElements:
			fills[op.Set.Family] = true
		case AddEndpoints:
			fills[op.Set.Family] = true
		case AddChain:
			enters[op.Chain.Family] = enters[op.Chain.Family] || op.Chain.Kind == NATPrerouting
		case DeleteTable, DeleteElements, DeleteSet, DeleteChain, FlushChain:
			return false
		}
	}
	for f := range fills {
		if fills[f] && !enters[f] {
			return false
		}
	}
	return true
}

// isDeclaration reports whether the op only makes room, so that it may come
// before everything else.
func isDeclaration(op Op) bool {
	switch op.(type) {
	case AddTable, AddCounter, AddSet:
		return true
	}
	return false
}
