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

// sameObjects asserts that few Services and a crowd have the same chains, rules and sets, as nft
// lists them without elements.
func sameObjects(small, large *proxy, f model.Family) {
	small.t.Helper()
	objects := func(m *machine) string {
		lines := strings.Split(installed(m.t).listTable(m, f, "-t"), "\n")
		return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "\t\tsize ") }), "\n")
	}
	if s, l := objects(small.machine), objects(large.machine); s != l {
		small.t.Errorf("%s: a crowd of Services has other objects than %d:%s", nft.FamilyName(f), few, firstDifference(l, s))
	}
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

// TestLargeFirstLoadIsDivided has more elements than one transaction takes.
func TestLargeFirstLoadIsDivided(t *testing.T) {
	m := newMachine(t)
	rules, batch := nft.Adopt(services(1).config, m.read(), services(lots).all())
	steps := len(batch.Steps(nft.StepElements))
	if applied := m.apply(batch); applied.Steps != steps || steps < 2 {
		t.Errorf("it took %d transactions, want %d", applied.Steps, steps)
	}
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
