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

// objects is every chain, rule and set that the kernel holds in a table, as nft
// lists them without elements.
func objects(m *machine, f model.Family) []string {
	m.t.Helper()
	lines := strings.Split(installed(m.t).listTable(m, f, "-t"), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "\t\tsize ") })
}

func TestReplacedEndpointCostsTheSameAmongManyServices(t *testing.T) {
	small, _ := start(newMachine(t), fullServices(few))
	large, _ := start(newMachine(t), fullServices(crowd))
	for _, f := range model.Families {
		s, l := replaceEndpoint(small, f), replaceEndpoint(large, f)
		if s.Bytes != l.Bytes || s.Messages != l.Messages || s.Steps != 1 || l.Steps != 1 {
			t.Errorf("family %s: among %d Services it takes %+v, among %d %+v", nft.FamilyName(f), few, s, crowd, l)
		}
		if l.Messages != 4 { // begin, delete, add, end
			t.Errorf("family %s: it takes %d messages, want 4", nft.FamilyName(f), l.Messages)
		}
	}
}

// replaceEndpoint has a Service get another endpoint in place of its third.
func replaceEndpoint(p *proxy, f model.Family) nft.Applied {
	p.t.Helper()
	next := p.world.clone()
	next.edit(web(f, few/2), func(pool *model.Pool) {
		pool.Cluster = slices.Clone(pool.Cluster)
		pool.Cluster[2] = endpoint(f, 60000)
	})
	plan := p.rules.Plan(p.world.to(next))
	applied := p.apply(plan.Batch)
	p.rules.Commit(plan)
	p.check()
	return applied
}

// TestLargeFirstLoadTakesEffectInOneStep takes the steps one by one, and all together.
func TestLargeFirstLoadTakesEffectInOneStep(t *testing.T) {
	m := newMachine(t)
	config, wanted := services(1).config, services(lots).all()
	rules, batch := nft.Adopt(config, m.read(), wanted)
	steps, all := batch.Steps(nft.StepElements), batch.Counts().Added
	if len(steps) < 2 {
		t.Fatalf("the load of %d elements takes %d steps, want several", all, len(steps))
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
		if i > 0 {
			continue
		}
		if _, rest := nft.Adopt(config, m.read(), wanted); rest.Counts().Added != all-nft.StepElements {
			t.Errorf("for another process, %d of %d elements are left after a step of %d", rest.Counts().Added, all, nft.StepElements)
		}
	}
	same(t, "the kernel after all steps", m.read(), rules.Tables())
	other := newMachine(t)
	if applied := other.apply(batch); applied.Steps != len(steps) {
		t.Errorf("it took %d transactions, want %d", applied.Steps, len(steps))
	}
	same(t, "the kernel", other.read(), rules.Tables())
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
