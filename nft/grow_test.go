package nft

import (
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/model"
)

// withEndpoints is the change to one Service of n endpoints in each family.
func withEndpoints(n int) (c Change) {
	for _, f := range model.Families {
		one := weightedFrontend(f, model.TCP, model.SchedulerRandom, 0, slices.Repeat([]uint16{1}, n)...)
		c.Set = append(c.Set, one)
	}
	return c
}

// TestDeletedReaderOfGrownMapGetsNoRules has the only reader of a map replaced while the map
// outgrows its size.
func TestDeletedReaderOfGrownMapGetsNoRules(t *testing.T) {
	rules, _ := Adopt(sampleConfig, Tables{}, withEndpoints(300))
	batch := rules.Plan(withEndpoints(900)).Batch
	for _, f := range model.Families {
		grown, removed := Op(DeleteSet{f, "endpoints-many"}), Op(DeleteChain{f, "lb-300"})
		if !slices.ContainsFunc(batch, func(op Op) bool { return op.String() == grown.String() }) {
			t.Errorf("the batch lacks %q", grown)
		}
		if !slices.ContainsFunc(batch, func(op Op) bool { return op.String() == removed.String() }) {
			t.Errorf("the batch lacks %q", removed)
		}
	}
	for _, op := range batch {
		if rule, adds := op.(AddRule); adds && rule.Chain.Name() == "lb-300" {
			t.Errorf("a deleted chain gets the rule %q", rule.Rule)
		}
	}
}

// TestFullSetsStayMarkedUntilRebuilt commits a plan that does not touch them, as the first part of a
// change that is divided.
func TestFullSetsStayMarkedUntilRebuilt(t *testing.T) {
	rules, _ := Adopt(sampleConfig, Tables{}, withEndpoints(300))
	for _, f := range model.Families {
		rules.MarkFull(SetID{Family: f, Kind: SetEndpointsMany})
	}
	rules.Commit(rules.Plan(Change{NodeAddrs: &[]netip.Addr{netip.MustParseAddr("192.0.2.1")}}))
	for _, want := range []bool{true, false} {
		p := rules.Plan(withEndpoints(301))
		for _, f := range model.Families {
			rebuilt := Op(DeleteSet{f, "endpoints-many"})
			if got := slices.ContainsFunc(p.Batch, func(op Op) bool { return op.String() == rebuilt.String() }); got != want {
				t.Errorf("%q is in the batch: %t, want %t", rebuilt, got, want)
			}
		}
		rules.Commit(p)
		rules.Commit(rules.Plan(withEndpoints(300)))
	}
}
