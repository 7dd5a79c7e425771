package ruleset

import (
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
)

const steps = 100 // of each history

func TestAHistoryOfChangesLeavesWhatAFreshStartWouldMake(t *testing.T) {
	withSeeds(t, 2, func(t *testing.T, c *chance) {
		m := newMachine(t)
		foreign := addForeign(m)
		w := newWorld()
		if c.in(2) {
			w.config.Pods = podPrefixes
		}
		p, _ := start(m, w)
		for range steps {
			next := c.step(p.world)
			p.checkOrderIrrelevant(c, next)
			p.turn(next) // compares what the kernel has with the state
			p.checkNothingToDo(c)
			p.checkLikeFresh()
		}
		foreign.check()
	})
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

// checkNothingToDo asserts that there is nothing to do to get where the proxy
// is: not by a change that says what is so already, and not by a restart, which
// must find every endpoint in its slot.
func (p *proxy) checkNothingToDo(c *chance) {
	p.t.Helper()
	if b := p.rules.Plan(p.world.all()).Batch; len(b) > 0 {
		p.t.Fatalf("a change to what is so already takes:\n%s", b)
	}
	all := p.world.all()
	all.Set = shuffled(c, all.Set)
	rules, batch := nft.Adopt(p.world.config, p.held, all)
	if len(batch) > 0 {
		p.t.Fatalf("a restart without a change takes:\n%s", batch)
	}
	same(p.t, "the state after a restart", rules.Tables(), p.rules.Tables())
}

// checkLikeFresh asserts that a machine without our tables would come to the
// same, but for who has which slot and how large sets are.
func (p *proxy) checkLikeFresh() {
	p.t.Helper()
	fresh, _ := nft.Adopt(p.world.config, nft.Tables{}, p.world.all())
	same(p.t, "the state after a history", slotless(p.rules.Tables()), slotless(fresh.Tables()))
}

// slotless is what tables hold, with every frontend's endpoints sorted over its
// slots, and with sets of no size.
func slotless(t nft.Tables) nft.Tables {
	for f, table := range t {
		slots := map[nft.Key][]*nft.Element{}
		for k := range uint16(nft.MaxSlots) {
			gather(slots, table, nft.SetID{Family: model.Family(f), Kind: nft.Endpoints, Slot: k})
		}
		gather(slots, table, nft.SetID{Family: model.Family(f), Kind: nft.EndpointsMany})
		for _, elements := range slots {
			values := make([]nft.Value, len(elements))
			for i, e := range elements {
				values[i] = e.Value
			}
			slices.SortFunc(values, func(a, b nft.Value) int { return a.Endpoint.Compare(b.Endpoint) })
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

// gather adds the elements of a map to those of the frontends they belong to.
func gather(slots map[nft.Key][]*nft.Element, from *nft.Table, id nft.SetID) {
	elements := from.Sets[id.Name()].Elements
	for i := range elements {
		frontend := elements[i].Key
		frontend.Pick = 0
		slots[frontend] = append(slots[frontend], &elements[i])
	}
}
