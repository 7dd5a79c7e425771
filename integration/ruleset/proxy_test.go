package ruleset

import (
	"fmt"
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// A proxy is the state of a running kube-vmap, and its machine.
type proxy struct {
	*machine
	world *world
	rules *nft.Ruleset
	held  nft.Tables // what the kernel held at the latest check
}

// start adopts what the kernel of the machine holds, changes it to the world, and returns
// the batch.
func start(m *machine, w *world) (*proxy, nft.Batch) {
	m.t.Helper()
	rules, batch := nft.Adopt(w.config, m.read(), w.all())
	m.apply(batch)
	p := &proxy{machine: m, world: w, rules: rules}
	p.check()
	return p, batch
}

// turn changes the machine from the proxy's world to the next one and returns the batch.
func (p *proxy) turn(next *world) nft.Batch {
	p.t.Helper()
	plan := p.rules.Plan(p.world.to(next))
	p.apply(plan.Batch)
	p.rules.Commit(plan)
	p.world = next
	p.check()
	return plan.Batch
}

// check asserts that the kernel holds exactly the proxy's state.
func (p *proxy) check() {
	p.t.Helper()
	p.held = p.read()
	same(p.t, "the kernel", p.held, p.rules.Tables())
}

// same asserts that tables are as wanted, and names some of what differs.
func same(t testing.TB, what string, got, want nft.Tables) {
	t.Helper()
	differences := compare(got, want)
	if n := len(differences); n > 0 {
		t.Fatalf("%s differs in %d places, among them:\n%s", what, n, lines(differences[:min(n, 10)]))
	}
}

func lines(list []string) (text string) {
	for _, s := range list {
		text += "\t" + s + "\n"
	}
	return text
}

// compare lists what differs between tables, sorted.
func compare(got, want nft.Tables) (out []string) {
	for _, f := range model.Families {
		g, w := got[f], want[f]
		if g == nil || w == nil {
			if g != w {
				out = append(out, fmt.Sprintf("table %s: there is one: %t, want %t", nft.FamilyName(f), g != nil, w != nil))
			}
			continue
		}
		if g.Dormant != w.Dormant {
			out = append(out, fmt.Sprintf("table %s: dormant: %t, want %t", nft.FamilyName(f), g.Dormant, w.Dormant))
		}
		if g.Counters != w.Counters {
			out = append(out, fmt.Sprintf("table %s: counters: %t, want %t", nft.FamilyName(f), g.Counters, w.Counters))
		}
		for _, d := range slices.Concat(compareChains(g, w), compareSets(g, w)) {
			out = append(out, nft.FamilyName(f)+" "+d)
		}
	}
	slices.Sort(out)
	return out
}

func compareChains(got, want *nft.Table) (out []string) {
	for name := range union(got.Chains, want.Chains) {
		g, have := got.Chains[name]
		w, wanted := want.Chains[name]
		if have != wanted || g.Hook != w.Hook || !slices.Equal(g.Rules, w.Rules) {
			out = append(out, fmt.Sprintf("chain %s: have (%t) %+v, want (%t) %+v", name, have, g, wanted, w))
		}
	}
	return out
}

func compareSets(got, want *nft.Table) (out []string) {
	for name := range union(got.Sets, want.Sets) {
		g, have := got.Sets[name]
		w, wanted := want.Sets[name]
		if have != wanted || g.Shape != w.Shape {
			out = append(out, fmt.Sprintf("set %s: have (%t) %+v, want (%t) %+v", name, have, g.Shape, wanted, w.Shape))
			continue
		}
		if len(g.Elements) != len(w.Elements) {
			out = append(out, fmt.Sprintf("set %s: %d elements, want %d", name, len(g.Elements), len(w.Elements)))
		}
		for i := range min(len(g.Elements), len(w.Elements)) {
			if g.Elements[i] != w.Elements[i] {
				out = append(out, fmt.Sprintf("set %s, element %d: %+v, want %+v", name, i, g.Elements[i], w.Elements[i]))
				break // what follows is most often only shifted
			}
		}
	}
	return out
}

// union is the set of the keys of both maps.
func union[V any](a, b map[string]V) map[string]bool {
	all := map[string]bool{}
	for _, m := range []map[string]V{a, b} {
		for name := range m {
			all[name] = true
		}
	}
	return all
}
