package flows

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// A walk is a method of [conntrack.Conntrack].
type walk = func(begin func(), fn func(conntrack.Entry)) error

// walked returns what a walk reports, as flows without their clients.
func walked(t testing.TB, each walk) (flows []flow, ids map[uint32]bool) {
	t.Helper()
	err := each(func() { flows, ids = nil, map[uint32]bool{} }, func(e conntrack.Entry) {
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

// TestWalksTellAnsweredEntries has entries of every protocol and family with and without a
// reply, of two endpoints, and others whose destination was not translated.
func TestWalksTellAnsweredEntries(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	var unanswered []flow
	answered := map[netip.Addr][]flow{}
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			for i, replied := range []bool{false, true} {
				for j, by := range []string{"ep1", "ep2"} {
					port := uint16(4000 + 10*i + j)
					e := flow{protocol: p, client: at(f, "client", port), to: at(f, "vip", 80), by: at(f, by, 8080)}
					e.translated, e.replied = true, replied
					direct := flow{protocol: p, client: at(f, "remote", port), to: e.by, by: e.by, replied: replied}
					x.add(e, direct)
					if want := (flow{protocol: p, to: e.to, by: e.by}); replied {
						answered[e.by.Addr()] = append(answered[e.by.Addr()], want)
					} else {
						unanswered = append(unanswered, want)
					}
				}
			}
		}
	}
	slices.SortFunc(unanswered, compareFlows)
	all := slices.Concat(slices.Collect(maps.Values(answered))...)
	slices.SortFunc(all, compareFlows)
	answered[netip.Addr{}] = all
	c := x.open()
	if got, _ := walked(t, c.EachUnanswered); !slices.Equal(got, unanswered) {
		t.Errorf("unanswered: %v, want %v", got, unanswered)
	}
	got, ids := walked(t, c.EachTranslated)
	want := slices.SortedFunc(slices.Values(slices.Concat(all, unanswered)), compareFlows)
	if !slices.Equal(got, want) || len(ids) != len(want) {
		t.Errorf("%d entries with %d numbers, want %d: %v", len(got), len(ids), len(want), got)
	}
	if _, again := walked(t, c.EachTranslated); !maps.Equal(again, ids) {
		t.Errorf("numbers %v changed to %v", ids, again)
	}
	for addr, want := range answered {
		got, _ := walked(t, func(begin func(), fn func(conntrack.Entry)) error {
			return c.EachAnswered(addr, begin, fn)
		})
		if !slices.Equal(got, want) {
			t.Errorf("answered by %s: %v, want %v", addr, got, want)
		}
	}
}
