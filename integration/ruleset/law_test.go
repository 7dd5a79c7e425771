package ruleset

import (
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// few and lots of Services, in both families.
const (
	few  = 10
	lots = 10_000
)

func TestNoChainSetOrRulePerService(t *testing.T) {
	small, _ := start(newMachine(t), services(few))
	large, _ := start(newMachine(t), services(lots))
	for _, f := range model.Families {
		s, l := objects(small.machine, f), objects(large.machine, f)
		if !slices.Equal(s, l) {
			t.Errorf("family %s with %d Services has\n%s\nand with %d\n%s",
				nft.FamilyName(f), few, strings.Join(s, "\n"), lots, strings.Join(l, "\n"))
		}
		if want := 2 * lots * (1 + 3 + 1) / 2; elements(large.machine, f) < want {
			t.Errorf("family %s with %d Services has %d elements, want %d at least", nft.FamilyName(f), lots, elements(large.machine, f), want)
		}
	}
}

// objects is every chain, rule and set that the kernel holds in a table, as nft
// lists them without elements.
func objects(m *machine, f model.Family) []string {
	m.t.Helper()
	lines := strings.Split(installed(m.t).listTable(m, f, "-t"), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "\t\tsize ") })
}

func elements(m *machine, f model.Family) (n int) {
	for _, set := range m.read()[f].Sets {
		n += len(set.Elements)
	}
	return n
}

func TestReplacedEndpointCostsTheSameAmongManyServices(t *testing.T) {
	small, _ := start(newMachine(t), services(few))
	large, _ := start(newMachine(t), services(lots))
	for _, f := range model.Families {
		s, l := replaceEndpoint(small, f), replaceEndpoint(large, f)
		if s.Bytes != l.Bytes || s.Messages != l.Messages || s.Steps != 1 || l.Steps != 1 {
			t.Errorf("family %s: among %d Services it takes %+v, among %d %+v", nft.FamilyName(f), few, s, lots, l)
		}
		if l.Messages != 4 { // begin, delete, add, end
			t.Errorf("family %s: it takes %d messages, want 4", nft.FamilyName(f), l.Messages)
		}
	}
}

// replaceEndpoint has a Service get another endpoint in place of its second.
func replaceEndpoint(p *proxy, f model.Family) nft.Applied {
	p.t.Helper()
	next := p.world.clone()
	had := next.frontends[web(f, few/2)].Pool.Cluster
	next.serve(web(f, few/2), had[0], had[2], endpoint(f, 60000))
	plan := p.rules.Plan(p.world.to(next))
	applied := p.apply(plan.Batch)
	p.rules.Commit(plan)
	p.check()
	return applied
}

func TestLargeFirstLoadTakesEffectInOneStep(t *testing.T) {
	m := newMachine(t)
	rules, batch := nft.Adopt(services(1).config, m.read(), services(lots).all())
	steps := batch.Steps(nft.StepElements)
	if added := batch.Counts().Added; added <= nft.StepElements || len(steps) < 2 {
		t.Fatalf("the load of %d elements takes %d steps, want several", added, len(steps))
	}
	for i, step := range steps {
		for f, table := range m.read() {
			if table != nil && len(table.Chains) > 0 {
				t.Fatalf("before step %d of %d table %d has %d chains", i+1, len(steps), f, len(table.Chains))
			}
		}
		if applied := m.apply(step); applied.Steps != 1 {
			t.Fatalf("step %d takes %d transactions itself", i+1, applied.Steps)
		}
	}
	same(t, "the kernel after all steps", m.read(), rules.Tables())
}

func TestLargeFirstLoadIsAppliedInSteps(t *testing.T) {
	m := newMachine(t)
	rules, batch := nft.Adopt(services(1).config, m.read(), services(lots).all())
	applied := m.apply(batch)
	if want := len(batch.Steps(nft.StepElements)); applied.Steps != want || want < 2 {
		t.Errorf("it took %d transactions, want %d, and several", applied.Steps, want)
	}
	same(t, "the kernel", m.read(), rules.Tables())
}
