// Package follow has what followers of the loop share. Each follower is a package in its folder and
// does what else must happen when the kernel has committed a change:
//
//	flows          ends flows to removed endpoints
//	connections    reads connection counters, and removes counters of removed endpoints
//	affinity       evicts clients with session affinity where the map is nearly full
//	leastconn      steers new connections to the endpoints with the fewest
//	slowstart      takes endpoints that joined others to their full weights
//	passivehealth  finds unresponsive endpoints
//	hold           ends the hold of connections that waited for an endpoint for too long
//	demand         reports the demand for Services that scale to zero
//	healthcheck    serves health check node ports
//	localhost      serves node ports on localhost
//
// Package fastpath needs no commits, and listen opens sockets for healthcheck and localhost. A
// follower that works on a goroutine of its own has a [Queue], and keeps what concerns it of the
// committed frontends with [Update].
package follow

import (
	"log/slog"
	"maps"
	stdsync "sync"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// Update brings a follower's copy of frontends up to date with a commit. For each frontend that is
// new or may have changed, keep returns the value to keep, and false if the frontend does not
// concern the follower; before is the value kept until now, unless it is new. Afterwards, removed
// is called for each frontend that is no longer kept.
func Update[T any](
	all map[model.Match]T, c sync.Committed,
	keep func(f *model.Frontend, before T, known bool) (now T, keeps bool), removed func(model.Match, T),
) {
	obsolete := map[model.Match]T{}
	if c.Full {
		obsolete = maps.Clone(all)
	}
	for i := range c.Set {
		f := &c.Set[i]
		before, known := all[f.Match]
		if now, keeps := keep(f, before, known); keeps {
			all[f.Match] = now
			delete(obsolete, f.Match)
		} else if known {
			obsolete[f.Match] = before
		}
	}
	for _, m := range c.Removed {
		if before, known := all[m]; known {
			obsolete[m] = before
		}
	}
	for m, before := range obsolete {
		delete(all, m)
		removed(m, before)
	}
}

// An Outcome logs when repeated work starts to fail, and when it succeeds again.
type Outcome struct{ failing bool }

// Log logs that the work failed with an error or that it succeeded, unless it did before, too.
func (o *Outcome) Log(log *slog.Logger, err error, failed, again string) {
	switch {
	case err != nil && !o.failing:
		log.Warn(failed, "err", err) //nolint:sloglint // a constant of the caller
	case err == nil && o.failing:
		log.Info(again) //nolint:sloglint // a constant of the caller
	}
	o.failing = err != nil
}

// A Queue is a [sync.Follower] that hands commits over to another goroutine.
type Queue struct {
	mu      stdsync.Mutex
	commits []sync.Committed
	ready   chan struct{} // capacity one
}

// NewQueue returns an empty queue.
func NewQueue() *Queue { return &Queue{ready: make(chan struct{}, 1)} }

// Follow implements [sync.Follower].
func (q *Queue) Follow(c sync.Committed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.commits = append(q.commits, c)
	select {
	case q.ready <- struct{}{}:
	default: // signaled already
	}
}

// Ready returns a channel that delivers when commits have arrived.
func (q *Queue) Ready() <-chan struct{} { return q.ready }

// Take removes and returns all commits, in order.
func (q *Queue) Take() []sync.Committed {
	q.mu.Lock()
	defer q.mu.Unlock()
	commits := q.commits
	q.commits = nil
	return commits
}
