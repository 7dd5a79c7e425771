package nft

import (
	"slices"
	"time"

	"kube-vmap/model"
)

// A Batch is a list of changes that the kernel commits as a whole or not at all, in the
// order that it requires.
type Batch []Op

// An Op is one change of a [Batch]: one of the types below. Package wire has their netlink
// form; its [Error] reports which op was refused.
type Op interface {
	// String returns the nft command that does the same.
	String() string
}

// AddTable adds our table. If it exists already nothing happens, except that a protected
// table without an owner gets one again.
type AddTable struct {
	Family model.Family
	// Protected makes the socket that adds the table its owner. No other program can then
	// change the table, and it is kept when that socket is closed.
	Protected bool
	// Exists means that the table exists, and only lacks an owner.
	Exists bool
}

// DeleteTable deletes our table with all its content.
type DeleteTable struct{ Family model.Family }

// AddCounter adds a named counter. If it exists already nothing happens.
type AddCounter struct {
	Family  model.Family
	Counter Counter
}

// AddSet declares a set or map for up to Size elements.
type AddSet struct {
	Set  SetID
	Size uint32
}

// DeleteSet deletes a set that rules no longer refer to.
type DeleteSet struct {
	Family model.Family
	Name   string
}

// AddChain adds a chain without rules.
type AddChain struct{ Chain ChainID }

// FlushChain deletes the rules of a chain.
type FlushChain struct {
	Family model.Family
	Name   string
}

// DeleteChain deletes a chain without remaining references.
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

// DeleteElements deletes elements of a set, by their keys.
type DeleteElements struct {
	Set      SetID
	Elements []Element
}

// Counts is the size of a batch, for people.
type Counts struct {
	Added, Deleted int // elements
	Objects        int // tables, sets, chains and rules that are added or deleted
}

// objectCost is how many elements cost the kernel as much as a chain, set or rule.
const objectCost = 10

// Cost estimates how long the kernel needs for the changes, in elements: a million take one
// to two seconds.
func (c Counts) Cost() int { return c.Added + c.Deleted + objectCost*c.Objects }

// Counts returns how much the batch changes.
func (b Batch) Counts() Counts {
	var c Counts
	for _, op := range b {
		switch op := op.(type) {
		case AddElements:
			c.Added += len(op.Elements)
		case AddFrontends:
			c.Added += op.Len()
		case DeleteElements:
			c.Deleted += len(op.Elements)
		case AddConnections:
			c.Added += len(op.List)
		case DeleteConnections:
			c.Deleted += len(op.List)
		case FlushChain: // the batch does not list the deleted rules
		default:
			c.Objects++
		}
	}
	return c
}

// Applied is the cost of a batch that was applied.
type Applied struct {
	Steps    int // transactions; more than one only where [Batch.Steps] says so
	Messages int
	Bytes    int
	// Kernel is the time spent in the kernel, Took that and the encoding.
	Kernel, Took time.Duration
}

// StepElements is the greatest number of elements of a step. It bounds how long the kernel
// locks nf_tables, and the memory of the batch and, while any program listens to nftables
// events, of the kernel's notifications.
const StepElements = 50_000

// Steps splits a batch with more elements than limit into several transactions. For traffic
// it still takes effect in one step:
//
//	before   add to endpoint maps keys that no packet can look up yet; replace endpoints,
//	         each in one transaction
//	switch   every chain, rule and element of a dispatch map
//	after    delete from endpoint maps keys that packets can no longer look up
//
// A batch that replaces a table is one step. An existing table gets its owner in a step of its
// own if the batch adds a base chain, too, which the kernel refuses in the same transaction
// (nf_tables_addchain, __NFT_TABLE_F_UPDATE). New chains, however few the elements, have a step
// before the elements that jump there, see unreached.
func (b Batch) Steps(limit int) []Batch {
	if take, rest := b.reclaiming(); take != nil {
		return append([]Batch{take}, rest.Steps(limit)...)
	}
	if chains, rest := b.unreached(); chains != nil {
		return append([]Batch{chains}, rest.Steps(limit)...)
	}
	if c := b.Counts(); c.Added+c.Deleted <= limit || b.replacesTable() {
		return []Batch{b}
	}
	return newDivision(b).steps(limit)
}

func (b Batch) replacesTable() bool {
	return slices.ContainsFunc(b, func(op Op) bool { _, deletes := op.(DeleteTable); return deletes })
}

// reclaiming splits off the ops that give tables an owner, if they must be committed
// before the rest.
func (b Batch) reclaiming() (take, rest Batch) {
	hooked := false
	for _, op := range b {
		switch op := op.(type) {
		case AddTable:
			if op.Exists {
				take = append(take, op)
				continue
			}
		case AddChain:
			hooked = hooked || hooks[op.Chain.Kind] != nil
		}
		rest = append(rest, op)
	}
	if !hooked {
		return nil, b
	}
	return take, rest
}

// unreached splits off new chains with their rules and sets: no packet gets there before the
// rest is committed. A packet sees the rules as they were when it entered its base chain
// (nft_do_chain), but each look-up sees the elements of its own moment. If an element were
// added in one transaction with its chain, it could send such a packet to a chain that is still
// empty, and out of the Service.
//
// New tables, with their base chains, have no such packets. Base chains that are added later are
// without rules until the rest is committed. Everything stays together also if the
// batch changes objects of another program, which may depend on the generation, or replaces a
// chain or set: the new one can only exist once the old one is deleted.
func (b Batch) unreached() (chains, rest Batch) {
	for _, op := range b {
		switch op := op.(type) {
		case AddTable, DeleteTable, ForeignChange:
			return nil, b
		case AddChain:
			if op.Chain.Kind < baseChains && hooks[op.Chain.Kind] != nil {
				return nil, b
			}
		}
	}
	fresh := b.newChains()
	if len(fresh) == 0 {
		return nil, b
	}
	for _, op := range b {
		first := false
		switch op := op.(type) {
		case AddChain:
			chains = chains.withNew(op)
			continue
		case AddSet, AddCounter:
			first = true
		case FlushChain:
			first = fresh[ChainNamed(op.Family, op.Name)] // of a step that is divided again
		case AddRule:
			first = fresh[op.Chain]
		}
		if first {
			chains = append(chains, op)
		} else {
			rest = append(rest, op)
		}
	}
	return chains, rest
}

// withNew appends the ops that add a chain without rules, even if an earlier attempt at the batch
// ended after some of its steps and left rules in it.
func (b Batch) withNew(op AddChain) Batch {
	return append(b, op, FlushChain{op.Chain.Family, op.Chain.Name()})
}

// newChains returns the new chains without base chains: no packet gets there until something else
// refers to them. It returns nothing if the batch replaces a chain or set.
func (b Batch) newChains() map[ChainID]bool {
	fresh, dropped := map[ChainID]bool{}, map[Op]bool{}
	for _, op := range b {
		switch op := op.(type) {
		case DeleteChain, DeleteSet:
			dropped[op] = true
		case AddSet:
			if dropped[DeleteSet{op.Set.Family, op.Set.Name()}] {
				return nil
			}
		case AddChain:
			if dropped[DeleteChain{op.Chain.Family, op.Chain.Name()}] {
				return nil
			}
			if hooks[op.Chain.Kind] == nil {
				fresh[op.Chain] = true
			}
		}
	}
	return fresh
}

// CommitSteps commits the steps one after the other. If the second is refused, it removes the new
// chains of the first, which nothing refers to: a batch without other steps is committed completely
// or not at all. It returns the number of steps that the kernel has, and the rest of the batch.
func (b Batch) CommitSteps(limit int, commit func(Batch) error) (done int, rest Batch, err error) {
	steps := b.Steps(limit)
	for done, step := range steps {
		if err := commit(step); err != nil {
			if undo := steps[0].undo(); done == 1 && undo != nil && commit(undo) == nil {
				done = 0
			}
			return done, slices.Concat(steps[done:]...), err
		}
	}
	return len(steps), nil, nil
}

// undo returns the batch that removes the chains and sets added by a batch of unreached chains,
// or nil for other batches.
func (b Batch) undo() Batch {
	var flush, chains, sets Batch
	for _, op := range b {
		switch op := op.(type) {
		case AddChain:
			flush = append(flush, FlushChain{op.Chain.Family, op.Chain.Name()})
			chains = append(chains, DeleteChain{op.Chain.Family, op.Chain.Name()})
		case AddSet:
			sets = append(sets, DeleteSet{op.Set.Family, op.Set.Name()})
		case FlushChain: // of the chain that was added last
			if n := len(chains); n == 0 || chains[n-1] != Op(DeleteChain(op)) {
				return nil
			}
		case AddCounter, AddRule:
		default:
			return nil
		}
	}
	if len(chains) == 0 {
		return nil
	}
	return slices.Concat(flush, chains, sets)
}

// A ForeignChange is a message to nf_tables about an object of another program, such as a
// table of kube-proxy, in the same transaction as changes of ours. A batch in steps has it
// in the step that switches to the new rules. An error of the kernel names it as the
// refused [Op], so the caller can do without.
type ForeignChange struct {
	// Text is the nft command that does the same.
	Text string
	// Kind is the type of the message (NFT_MSG_*), Flags are NLM_F_* of its header, and
	// Family is NFPROTO_*.
	Kind, Flags uint16
	Family      uint8
	// Attributes is the encoded body of the message, without its header.
	Attributes []byte
	// Generation, if not zero, is the generation of nf_tables that the change depends on.
	// If another transaction was committed since, the kernel refuses the whole batch with
	// ERESTART. It does not fit a batch in steps, because each of them is a transaction.
	Generation uint32
}

func (o ForeignChange) String() string { return o.Text }
