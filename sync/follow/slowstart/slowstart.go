// Package slowstart takes endpoints that have joined others to their full weights, for Services with
// the annotation kube-vmap.io/slow-start.
//
// Package model gives an endpoint that joins an eighth of its weight, in the change that adds it. This
// follower has the clock, and doubles that after each third of the time, to the second. A list keeps its
// slots for parts of weights twice as long: an endpoint that fails and returns all the time changes
// their number rarely.
package slowstart

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
	"kube-vmap/sync/throttle"
)

// SlowStart is a [sync.Follower] that ends slow starts.
type SlowStart struct {
	*follow.Queue

	// The following belongs to Run's goroutine.
	overlays chan<- []model.Overlay
	pools    map[model.Match]*pool // with endpoints that start, or did lately
	pace     throttle.Throttle
}

// A pool has the steps that were committed or sent.
type pool struct {
	model.SlowStart
	lasts time.Duration                // a slow start
	since map[netip.AddrPort]time.Time // of the endpoints that start
	last  time.Time                    // when the last one began
	due   time.Time                    // a step
}

// New returns SlowStart, which sends steps for [sync.Config]; it does nothing before Run.
func New(overlays chan<- []model.Overlay, background *throttle.Budget) *SlowStart {
	return &SlowStart{
		Queue: follow.NewQueue(), overlays: overlays, pools: map[model.Match]*pool{}, pace: background.Throttle(time.Second),
	}
}

// Run takes steps until ctx ends, which is not an error. While no endpoint starts it only waits.
func (s *SlowStart) Run(ctx context.Context) error {
	for {
		var next <-chan time.Time
		if len(s.pools) > 0 {
			next = time.After(s.pace.Remaining())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.Ready():
			s.applyCommits(time.Now())
		case <-next:
			var changed []model.Overlay
			s.pace.Do(func() {
				now := time.Now()
				for _, p := range s.pools {
					if !p.due.After(now) && p.step(now) {
						changed = append(changed, p.SlowStart)
					}
				}
			})
			sync.SendOverlays(ctx, s.overlays, changed)
		}
	}
}

// applyCommits follows commits. They may have new endpoints, and older steps than were sent: what is due
// is found by the next step.
func (s *SlowStart) applyCommits(now time.Time) {
	for _, c := range s.Take() {
		follow.Update(s.pools, c, func(f *model.Frontend, before *pool, _ bool) (*pool, bool) {
			p := &pool{SlowStart: model.SlowStart{Key: f.Match, Cluster: f.Pool.List(false), Local: f.Pool.List(true)}}
			if !f.IsClusterIP() || p.Cluster.Steps.Eighths == nil && p.Local.Steps.Eighths == nil {
				return nil, false
			}
			before = cmp.Or(before, new(pool))
			p.lasts, p.since, p.last, p.due = f.Pool.SlowStart, map[netip.AddrPort]time.Time{}, before.last, now
			for _, list := range [...]model.ListShares{p.Cluster, p.Local} {
				for i, eighths := range list.Steps.Eighths {
					a := list.Endpoints[i]
					if at, starts := before.since[a]; starts {
						p.since[a] = at
					} else if eighths < model.FullStep {
						p.since[a], p.last = now, now
					}
				}
			}
			return p, true
		}, func(model.Match, *pool) {})
	}
}

// step takes the endpoints to their steps of that time, and reports whether that changes any.
func (p *pool) step(now time.Time) (changed bool) {
	end := p.last.Add(2 * p.lasts)
	if !now.Before(end) { // the commit without steps removes the pool
		p.Cluster.Steps, p.Local.Steps, p.due = model.Steps{}, model.Steps{}, now.Add(time.Hour)
		return true
	}
	p.due = end
	for _, list := range [...]*model.ListShares{&p.Cluster, &p.Local} {
		next := slices.Clone(list.Steps.Eighths)
		for i := range next {
			at, starts := p.since[list.Endpoints[i]]
			n := int(3 * now.Sub(at) / p.lasts) // thirds that have passed
			if next[i] = model.FullStep; !starts || n >= 3 {
				continue
			}
			next[i] = 1 << n
			if due := at.Add(time.Duration(n+1) * p.lasts / 3); due.Before(p.due) {
				p.due = due
			}
		}
		changed = changed || !slices.Equal(next, list.Steps.Eighths)
		list.Steps.Eighths = next
	}
	return changed
}
