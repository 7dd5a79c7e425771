package passivehealth

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// publish sends the changes in these pools to the loop.
func (t *Tracker) publish(ctx context.Context, all []*pool) {
	if len(all) == 0 {
		return
	}
	unresponsive := map[*pool][]*check{}
	for _, c := range t.checks.active {
		for _, p := range c.in {
			unresponsive[p] = append(unresponsive[p], c)
		}
	}
	var out []model.Overlay
	all = slices.SortedFunc(slices.Values(all), func(a, b *pool) int { return a.key.Compare(b.key) })
	for _, p := range slices.Compact(all) {
		next := mostWitnessesFirst(unresponsive[p])
		if slices.Equal(next, p.sent) && !p.lost {
			continue
		}
		t.unresponsive.Add(int64(len(next) - len(p.sent)))
		p.sent, p.lost = next, false
		if p.mode == model.PassiveChecksAvoid {
			out = append(out, model.UnresponsiveEndpoints{Key: p.key, Endpoints: next})
		}
	}
	sync.SendOverlays(ctx, t.Overlays, out)
}

// mostWitnessesFirst returns the endpoints of checks, first those with the most witnesses without a
// reply when it was decided, then the oldest.
func mostWitnessesFirst(list []*check) (out []netip.AddrPort) {
	slices.SortFunc(list, func(a, b *check) int {
		return cmp.Or(-cmp.Compare(len(a.waiting), len(b.waiting)), a.began.Compare(b.began), a.addr.Compare(b.addr))
	})
	for _, c := range list {
		out = append(out, c.addr)
	}
	return out
}
