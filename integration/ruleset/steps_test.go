package ruleset

import (
	"testing"

	"kube-vmap/nft"
)

func TestInterruptedLoadIsContinued(t *testing.T) {
	m := newMachine(t)
	wanted := services(lots).all()
	_, batch := nft.Adopt(services(1).config, m.read(), wanted)
	m.apply(batch.Steps(nft.StepElements)[0]) // and then the process is gone
	rules, rest := nft.Adopt(services(1).config, m.read(), wanted)
	if all, left := batch.Counts().Added, rest.Counts().Added; left != all-nft.StepElements {
		t.Errorf("%d of %d elements are left after a step of %d", left, all, nft.StepElements)
	}
	m.apply(rest)
	same(t, "the kernel", m.read(), rules.Tables())
}

// TestChangeInStepsLeadsToTheSameTables takes every batch in the smallest steps,
// while Services of all kinds come, change and go.
func TestChangeInStepsLeadsToTheSameTables(t *testing.T) {
	p, _ := start(newMachine(t), services(few))
	for _, next := range []*world{fullServices(crowd), services(3), fullServices(few), services(crowd), services(0)} {
		plan := p.rules.Plan(p.world.to(next))
		for _, step := range plan.Batch.Steps(3) {
			p.machine.apply(step)
		}
		p.rules.Commit(plan)
		p.world = next
		p.check()
	}
}
