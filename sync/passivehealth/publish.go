package passivehealth

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// poolsOf returns the pools of checks.
func poolsOf(list []*check) (out []*pool) {
	for _, c := range list {
		out = append(out, c.pools...)
	}
	return out
}

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
	anything := t.checks.any(phaseUnresponsive) || t.anySilentNode()
	slices.SortFunc(all, func(a, b *pool) int { return a.key.Compare(b.key) })
	for _, p := range slices.Compact(all) {
		var next []netip.AddrPort
		if anything {
			next = t.unresponsive(p)
		}
		if slices.Equal(next, p.sent) {
			continue
		}
		t.notAnswering.Add(int64(len(next) - len(p.sent)))
		p.sent = next
		if p.mode == model.PassiveChecksAvoid {
			out = append(out, model.UnresponsiveEndpoints{Key: p.key, Endpoints: next})
		}
	}
	for some := range slices.Chunk(out, poolsAtOnce) {
		sync.Send(ctx, t.Unresponsive, some)
	}
}

// unresponsive returns the endpoints of the pool that do not answer, sorted.
func (t *Tracker) unresponsive(p *pool) (out []netip.AddrPort) {
	p.each(func(e endpoint) {
		c := t.checks.all[e]
		if c != nil && c.phase == phaseUnresponsive || t.onSilentNode(e) {
			out = append(out, e.addr)
		}
	})
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

func (t *Tracker) anySilentNode() bool {
	for _, n := range t.nodes {
		if n.silent {
			return true
		}
	}
	return false
}

// onSilentNode reports whether the endpoint is on a node that does not answer.
func (t *Tracker) onSilentNode(e endpoint) bool {
	for _, n := range t.nodes {
		if n.silent && n.addrs.Has(e.addr.Addr()) {
			return true
		}
	}
	return false
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
