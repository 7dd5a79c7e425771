package flows

import (
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// translated returns what EachTranslated reports, as flows without their clients.
func translated(t testing.TB, c *conntrack.Conntrack) (flows []flow, ids map[uint32]bool) {
	t.Helper()
	err := c.EachTranslated(func() { flows, ids = nil, map[uint32]bool{} }, func(e conntrack.Entry) {
		if !e.Open {
			t.Errorf("%v is not open", e)
		}
		flows = append(flows, flow{protocol: e.Protocol, to: e.Original, by: e.Reply})
		ids[e.ID] = true
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(flows, compareFlows)
	return flows, ids
}

// TestEachTranslatedHasTranslatedEntriesOnly has entries of every protocol and family, and
// twice as many whose destination was not translated.
func TestEachTranslatedHasTranslatedEntriesOnly(t *testing.T) {
	x := newTable(t)
	var want []flow
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			for i := range 10 {
				e := flow{protocol: p, client: client(f, i), to: at(f, "vip", 80), by: at(f, "ep1", 8080), translated: true}
				direct := flow{protocol: p, client: client(f, 300+i), to: at(f, "ep1", 8080), by: at(f, "ep1", 8080)}
				other := direct
				other.to, other.by = at(f, "ep3", 53), at(f, "ep3", 53)
				x.add(e, direct, other)
				want = append(want, flow{protocol: p, to: e.to, by: e.by})
			}
		}
	}
	slices.SortFunc(want, compareFlows)
	c := x.open()
	got, ids := translated(t, c)
	if !slices.Equal(got, want) || len(ids) != len(want) {
		t.Errorf("%d entries with %d numbers, want %d: %v", len(got), len(ids), len(want), got)
	}
	_, again := translated(t, c)
	for id := range ids {
		if !again[id] {
			t.Errorf("number %d changed", id)
		}
	}
}
