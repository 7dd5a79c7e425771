package shadow

import (
	"slices"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// settled is how long the data of a Service must be unchanged before its differences count.
// kube-proxy needs some seconds for a change: its minSyncPeriod is 1 s, and a sync of many
// Services takes as long.
const settled = 5 * time.Second

// A tracker follows which Services have changed lately, and which differences the last round
// has found. It is a [sync.Follower].
type tracker struct {
	now func() time.Time

	mu      stdsync.Mutex
	changed map[model.Match]time.Time // of late
	all     time.Time                 // when everything changed

	last map[string]bool // differences that the last round has found, by key
}

func newTracker(now func() time.Time) *tracker {
	return &tracker{now: now, changed: map[model.Match]time.Time{}, all: now()}
}

// Follow implements [sync.Follower].
func (t *tracker) Follow(c sync.Committed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if c.Full {
		t.all = now
		clear(t.changed)
		return
	}
	for i := range c.Set {
		t.changed[c.Set[i].Match] = now
	}
	for _, m := range c.Removed {
		t.changed[m] = now
	}
}

// unsettled returns the frontends that have changed in a round or shortly before it; all reports
// that all have.
func (t *tracker) unsettled(began time.Time) (frontends map[string]bool, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := began.Add(-settled)
	frontends = map[string]bool{}
	for m, at := range t.changed {
		if at.Before(since) {
			delete(t.changed, m)
			continue
		}
		frontends[m.String()] = true
	}
	return frontends, t.all.After(since)
}

// confirm leaves the differences of a report that the round before has found, too, and that are
// about Services whose data has not changed in the round, whose rules are read as it goes, nor
// shortly before it. Intended ones need no confirmation.
func (t *tracker) confirm(r *Report, began time.Time) {
	unsettled, all := t.unsettled(began)
	next := make(map[string]bool, len(r.Differences))
	r.Differences = slices.DeleteFunc(r.Differences, func(d Difference) bool {
		key := d.key()
		next[key] = true
		if d.Intended != "" || t.last[key] && !all && !unsettled[d.Frontend] {
			return false
		}
		r.Pending++
		return true
	})
	t.last = next
}
