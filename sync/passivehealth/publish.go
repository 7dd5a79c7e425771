package passivehealth

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// poolsAtOnce limits a transaction.
const poolsAtOnce = 1000

// publishAll publishes the changes of all pools.
func (t *Tracker) publishAll(ctx context.Context) {
	t.publish(ctx, slices.Collect(maps.Values(t.pools)))
}

// publish sends to the loop what changed in these pools. It waits while the loop is applying a
// batch.
func (t *Tracker) publish(ctx context.Context, all []*pool) {
	var out []model.UnresponsiveEndpoints
	silent := t.silentNodes()
	anything := t.checks.any(phaseUnresponsive) || len(silent) > 0
	slices.SortFunc(all, func(a, b *pool) int { return a.key.Compare(b.key) })
	for _, p := range slices.Compact(all) {
		var next []netip.AddrPort
		if anything {
			next = t.unresponsive(p, silent)
		}
		if slices.Equal(next, p.sent) && !p.lost {
			continue
		}
		t.notAnswering.Add(int64(len(next) - len(p.sent)))
		p.sent, p.lost = next, false
		if p.mode == model.PassiveChecksAvoid {
			out = append(out, model.UnresponsiveEndpoints{Key: p.key, Endpoints: next})
		}
	}
	for some := range slices.Chunk(out, poolsAtOnce) {
		sync.Send(ctx, t.Unresponsive, some)
	}
}

// unresponsive returns the endpoints of the pool that do not answer, or are on silent nodes, sorted.
func (t *Tracker) unresponsive(p *pool, silent []*node) (out []netip.AddrPort) {
	p.each(func(e endpoint) {
		c := t.checks.all[e]
		if c != nil && c.phase == phaseUnresponsive ||
			slices.ContainsFunc(silent, func(n *node) bool { return n.addrs.Has(e.addr.Addr()) }) {
			out = append(out, e.addr)
		}
	})
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// silentNodes returns the nodes that do not answer.
func (t *Tracker) silentNodes() (out []*node) {
	for _, n := range t.nodes {
		if n.silent {
			out = append(out, n)
		}
	}
	return out
}

// any reports whether some check is in the phase.
func (s *checks) any(p phase) bool {
	for _, c := range s.all {
		if c.phase == p {
			return true
		}
	}
	return false
}
