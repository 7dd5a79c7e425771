package ruleset

import (
	"slices"

	"kube-vmap/nft"
	"kube-vmap/sync/looptest"
)

// turn changes the machine from the proxy's world to the next one, checks what holds for every
// change, and returns the batch. Random histories are in integration/fake.
func (p *proxy) turn(next *world) nft.Batch {
	p.t.Helper()
	change := p.world.to(next)
	plan := p.rules.Plan(change)
	p.checkOrderIrrelevant(change, plan.Batch)
	p.checkLikeRestart(next, plan.Batch)
	p.apply(plan.Batch)
	p.rules.Commit(plan)
	p.world = next
	p.check()
	p.checkNothingToDo()
	p.checkLikeFresh()
	return plan.Batch
}

// checkOrderIrrelevant asserts that the batch does not depend on the order of the change.
func (p *proxy) checkOrderIrrelevant(change nft.Change, batch nft.Batch) {
	p.t.Helper()
	change.Set, change.Removed = reversed(change.Set), reversed(change.Removed)
	if again := p.rules.Plan(change).Batch; again.String() != batch.String() {
		p.t.Fatalf("the order of a change changes its batch:%s", firstDifference(again.String(), batch.String()))
	}
}

func reversed[T any](list []T) []T {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// checkLikeRestart asserts that the batch to the next world is that of a proxy which was
// restarted, and compares what the kernel holds with its state. Only sets that outgrow
// their size differ.
func (p *proxy) checkLikeRestart(next *world, batch nft.Batch) {
	p.t.Helper()
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
func (p *proxy) checkNothingToDo() {
	p.t.Helper()
	if b := p.rules.Plan(p.world.all()).Batch; len(b) > 0 {
		p.t.Fatalf("a change to the current state takes:\n%s", b)
	}
	all := p.world.all()
	all.Set = reversed(all.Set)
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
	if got, want := looptest.Summary(p.rules.Tables()), looptest.Summary(fresh.Tables()); got != want {
		p.t.Fatalf("the state after changes differs from that of a fresh start:%s", firstDifference(got, want))
	}
}
