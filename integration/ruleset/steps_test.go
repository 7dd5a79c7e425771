package ruleset

import (
	"testing"

	"kube-vmap/nft"
)

func TestALoadThatEndedBetweenStepsIsTakenUpAgain(t *testing.T) {
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
