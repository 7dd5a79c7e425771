package ruleset

import (
	"cmp"
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
)

// steps returns how many a history has.
func steps() int {
	if testing.Short() {
		return 20
	}
	return 60
}

func TestHistoryEqualsFreshStart(t *testing.T) {
	withSeeds(t, 1, func(t *testing.T, c *chance) {
		m := newMachine(t)
		foreign := addForeign(m)
		w := newWorld()
		if c.in(2) {
			w.config.Pods = podPrefixes
		}
		w.config.DropInvalid = c.in(2)
		w.config.CountConnections, w.config.CountUnanswered = c.in(2), c.in(2)
		p, batch := start(m, w)
		fake := &shadow{kerneltest.New()}
		fake.follow(p, batch)
		for range steps() {
			next := c.step(p.world)
			p.checkOrderIrrelevant(c, next)
			p.checkLikeRestart(next)
			fake.follow(p, p.turn(next)) // turn compares what the kernel has with the state
			p.checkNothingToDo(c)
			p.checkLikeFresh()
		}
		foreign.check()
	})
}

// shadow is the fake kernel, which must come to hold what the real one does.
type shadow struct{ *kerneltest.Kernel }

func (s *shadow) follow(p *proxy, b nft.Batch) {
	p.t.Helper()
	if _, err := s.Apply(b); err != nil {
		p.t.Fatalf("the fake kernel: %v", err)
	}
	held, err := s.Read()
	if err != nil {
		p.t.Fatal(err)
	}
	same(p.t, "the fake kernel", held, p.held)
}

// checkOrderIrrelevant asserts that the batch does not depend on the order of
// the change.
func (p *proxy) checkOrderIrrelevant(c *chance, next *world) {
	p.t.Helper()
	change := p.world.to(next)
	batch := p.rules.Plan(change).Batch
	change.Set, change.Gone = shuffled(c, change.Set), shuffled(c, change.Gone)
	if again := p.rules.Plan(change).Batch; again.String() != batch.String() {
		p.t.Fatalf("the order of a change changes its batch:%s", firstDifference(again.String(), batch.String()))
	}
}

// checkLikeRestart asserts that the batch to the next world is that of a proxy which was
// restarted, and compares what the kernel holds with its state. Only sets that outgrow
// their size differ.
func (p *proxy) checkLikeRestart(next *world) {
	p.t.Helper()
	batch := p.rules.Plan(p.world.to(next)).Batch
	grown := func(op nft.Op) bool {
		gone, is := op.(nft.DeleteSet)
		id, _ := nft.SetNamed(gone.Family, gone.Name)
		return is && slices.ContainsFunc(batch, func(op nft.Op) bool { add, is := op.(nft.AddSet); return is && add.Set == id })
	}
	_, diff := nft.Adopt(p.world.config, p.held, next.all())
	if !slices.ContainsFunc(batch, grown) && diff.String() != batch.String() {
		p.t.Fatalf("a change takes another batch than what was found does:%s", firstDifference(batch.String(), diff.String()))
	}
}

// checkNothingToDo asserts that the batch to the current state is empty: both of a change to
// what exists already, and of a restart, which must find every endpoint in its slot.
func (p *proxy) checkNothingToDo(c *chance) {
	p.t.Helper()
	if b := p.rules.Plan(p.world.all()).Batch; len(b) > 0 {
		p.t.Fatalf("a change to the current state takes:\n%s", b)
	}
	all := p.world.all()
	all.Set = shuffled(c, all.Set)
	rules, batch := nft.Adopt(p.world.config, p.held, all)
	if len(batch) > 0 {
		p.t.Fatalf("a restart without a change takes:\n%s", batch)
	}
	same(p.t, "the state after a restart", rules.Tables(), p.rules.Tables())
}

// checkLikeFresh asserts that a machine without our tables gets the same state, except for
// the slots of endpoints and the sizes of sets.
func (p *proxy) checkLikeFresh() {
	p.t.Helper()
	fresh, _ := nft.Adopt(p.world.config, nft.Tables{}, p.world.all())
	same(p.t, "the state after a history", slotless(p.rules.Tables()), slotless(fresh.Tables()))
}

// slotless is what tables hold, with every frontend's endpoints sorted over its
// slots, and with sets of no size.
func slotless(t nft.Tables) nft.Tables {
	for f, table := range t {
		slots := map[list][]*nft.Element{}
		for kind := nft.SetEndpoints; kind < nft.SetStickyEndpoints; kind++ {
			for _, local := range []bool{false, true} {
				for k := range uint16(nft.MaxSlots) {
					gather(slots, table, nft.SetID{Family: model.Family(f), Kind: kind, Local: local, Slot: k})
				}
			}
		}
		for _, elements := range slots {
			values := make([]nft.Value, len(elements))
			for i, e := range elements {
				values[i] = e.Value
			}
			slices.SortFunc(values, func(a, b nft.Value) int {
				return cmp.Or(a.Endpoint.Compare(b.Endpoint), cmp.Compare(a.Number, b.Number))
			})
			for i, e := range elements {
				e.Value = values[i]
			}
		}
		for name, set := range table.Sets {
			set.Shape.Size = 0
			table.Sets[name] = set
		}
	}
	return t
}

// list is one of the two lists of endpoints of a Service port.
type list struct {
	frontend nft.Key
	local    bool
}

// gather adds the elements of a map to those of the lists they belong to. Kinds
// that have no slots are the same for every slot, and gathered once.
func gather(slots map[list][]*nft.Element, from *nft.Table, id nft.SetID) {
	many := id.Kind == nft.SetEndpointsMany || id.Kind == nft.SetStickyNumbers
	if many && id.Slot > 0 {
		return
	}
	elements := from.Sets[id.Name()].Elements
	for i := range elements {
		l := list{elements[i].Key, id.Local}
		l.frontend.Pick = 0
		slots[l] = append(slots[l], &elements[i])
	}
}
