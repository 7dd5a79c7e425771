package nft

import (
	"slices"
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
}

// AddTable makes our table; if it is there already nothing happens, but that one
// which is to be protected and has lost its owner gets one again.
type AddTable struct {
	Family model.Family
	// Protected makes the table belong to the socket it comes through, so that no
	// other program can change it, and stay when that is closed.
	Protected bool
	// Exists tells that the table is there, and only lacks its owner.
	Exists bool
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

// Counts is the size of a batch in the units a person thinks in.
type Counts struct {
	Added, Deleted int // elements
	Objects        int // tables, sets, chains and rules that come or go
}

// objectCost is what a chain, set or rule costs the kernel, in elements.
const objectCost = 10

// Cost is about how long the kernel needs for the changes, in elements: a million of
// them take one to two seconds.
func (c Counts) Cost() int { return c.Added + c.Deleted + objectCost*c.Objects }

// CountsConnections sums up what the batch changes.
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
		case AddConnections:
			c.Added += len(op.List)
		case DeleteConnections:
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

// StepElements is how many elements one step carries. It bounds how long the kernel
// keeps other programs from nf_tables, and the memory that the batch and, while any
// program listens to nftables events, the kernel's notifications take.
const StepElements = 50_000

// Steps splits a batch that is too large for one transaction. For traffic it is
// still one switch:
//
//	before   fills maps of endpoints with keys that no packet is led to yet; replaces
//	         endpoints, each at once
//	switch   every chain, rule and dispatching element
//	after    deletes from maps of endpoints the keys that none is led to any more
//
// A batch that replaces a table is one step.
//
// A table that stands gets its owner back in a step of its own if a base chain comes
// with it, which the kernel refuses in the same transaction (nf_tables_addchain,
// __NFT_TABLE_F_UPDATE).
func (b Batch) Steps(limit int) []Batch {
	if take, rest := b.reclaiming(); take != nil {
		return append([]Batch{take}, rest.Steps(limit)...)
	}
	if c := b.Counts(); c.Added+c.Deleted <= limit || b.replacesTable() {
		return []Batch{b}
	}
	return newDivision(b).steps(limit)
}

// replacesTable reports whether the batch deletes a table.
func (b Batch) replacesTable() bool {
	return slices.ContainsFunc(b, func(op Op) bool { _, deletes := op.(DeleteTable); return deletes })
}

// reclaiming takes out of the batch what gives tables an owner, where that must come
// before the rest.
func (b Batch) reclaiming() (take, rest Batch) {
	hooks := false
	for _, op := range b {
		switch op := op.(type) {
		case AddTable:
			if op.Exists {
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
