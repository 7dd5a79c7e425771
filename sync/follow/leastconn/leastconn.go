// Package leastconn steers new connections to the endpoints with the fewest active ones,
// for Services with [model.SchedulerLeastConnections].
//
// nf_tables cannot compare two counters, so the decision is not made for each connection.
// Once a second, connection tracking is read and the slots of each pool are shared out
// accordingly; the kernel picks one of them at random:
//
//	         +---------- at least a second, 70 times the work of an observation ----------+
//	         v                                                                            |
//	connection tracking --> active and new connections --> law --> shares --> sync.Loop --+
//	 (translated entries)         by endpoint            (law.go)  [model.PoolShares]
//	                                  ^
//	            sync.Loop --Follow----+ pools, endpoints, weights
//
// # The law
//
// Let A be the active connections of an endpoint, w its weight, and R the arrivals that
// are expected for the pool within two periods. Poured like water onto the endpoints, R
// connections would fill them up to a level L:
//
//	sum of max(0, w L - A) = R
//
// An endpoint's share is in proportion to max(0, w L - A), at most four times its fair one. R is
// twice the arrivals of one period: one period then fills half of what is missing.
//
// # Why it does not oscillate
//
// Let a be how far an endpoint is above the mean, q the part of its connections that survives a
// period, and f the part of the connections that arrive in a period and are there at its end; q <=
// f <= 1. While no share is zero, the endpoint gets a/R of the arrivals less than its fair share.
// These are f a/2 connections less after a period, and a becomes (q - f/2) a: between -a/2 and a/2,
// whatever the lifetime of connections. If shares take effect a whole period late, then z² - q z +
// f/2 = 0, whose solutions have the magnitude sqrt(f/2), at most 0.71. A share that is cut off at
// zero or at its limit corrects less. Only more than R arrivals in one period overshoot the level.
// So arrivals are counted, closed connections included, and not derived from the active ones; and
// after a burst more are expected for some periods.
//
// While more shares must change than a transaction takes, the shares of a pool stay in
// effect from one of its turns to the next. That time is then the period of the above:
// arrivals are expected for twice as long as the pool has waited. They may be up to twice as
// many without any lasting oscillation.
//
// # Cost
//
// An observation costs the kernel and this process in proportion to the translated entries, about
// 2 µs each; the pause after it, 70 times its processor time, keeps that below two percent of one
// processor. It causes at most one event for the loop, of 2,048 slots at most, which namespaces
// share (leastconn.go). Pools whose endpoints are near their level have the shares of their weights,
// as if the scheduler was random, and cost nothing. Without any such pool nothing is read.
package leastconn

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
	"kube-vmap/sync/throttle"
)

const (
	// minPeriod is the time between two observations, at least.
	minPeriod = time.Second
	// pauseFactor times the processor time of an observation is the pause after it:
	// observations take less than two percent of one processor, however many connections
	// exist. Collecting their garbage, on other threads, is a fifth more.
	pauseFactor = 70
)

// Config configures [LeastConnections].
type Config struct {
	Tracking   Tracking
	Log        *slog.Logger
	Background *throttle.Budget // of all background work
	// Overlays receives the shares of pools that have changed, for [sync.Config].
	Overlays chan<- []model.Overlay
}

// LeastConnections is a [sync.Follower] that steers new connections to the endpoints with
// the fewest.
type LeastConnections struct {
	Config
	*follow.Queue

	// The following belongs to Run's goroutine.
	pools    pools
	quota    quota
	observer observer
	// observedAt is when the last observation began that did not fail, period is the time until
	// the next one.
	observedAt time.Time
	period     time.Duration
	pace       throttle.Throttle
	outcome    follow.Outcome // of observations
}

// New returns LeastConnections; it does nothing before Run.
func New(c Config) *LeastConnections {
	l := &LeastConnections{
		Config: c, Queue: follow.NewQueue(),
		pools: pools{}, observer: observer{tracking: c.Tracking}, period: minPeriod,
		pace: c.Background.Throttle(minPeriod),
	}
	l.pace.Factor = pauseFactor
	return l
}

// Run observes and steers until ctx ends, which is not an error. While no pool has this
// scheduler it only waits.
func (l *LeastConnections) Run(ctx context.Context) error {
	var next <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.Ready():
			l.applyCommits()
		case <-next:
			next = nil
			l.applyCommits()
			var changed []model.Overlay
			l.period = l.pace.Do(func() { changed = l.observe() })
			sync.SendOverlays(ctx, l.Overlays, changed)
		}
		switch {
		case len(l.pools) == 0:
			next = nil
			l.observer.forget()
		case next == nil:
			next = time.After(l.period)
		}
	}
}

func (l *LeastConnections) applyCommits() {
	for _, c := range l.Take() {
		l.pools.apply(c)
	}
}

// observe observes once and returns the shares that should change: if it fails, all pools
// return to their weights.
func (l *LeastConnections) observe() []model.Overlay {
	start := time.Now()
	counts, arrivalsKnown, err := l.observer.observe()
	l.outcome.Log(l.Log, err, "connections not counted, least connections is random until they are",
		"connections counted again for least connections")
	var changes []change
	switch {
	case err != nil:
		changes = l.pools.reset()
	case arrivalsKnown:
		changes = l.pools.steer(counts, start.Sub(l.observedAt), l.period)
	}
	if err == nil {
		l.observedAt = start
	}
	return l.quota.send(changes)
}

// maxSlotsAtOnce limits a transaction of all pools together.
const maxSlotsAtOnce = 2048

// A quota divides the slots of a transaction among the namespaces that have changes:
//
//   - Half of them in equal shares; the unused part of a share goes to the others. A namespace
//     that needs no more than its share is served at every observation, whatever others have.
//   - The other half, and unused slots, one pool of each namespace at a time. However many
//     namespaces there are, and however small their shares, each of them has its turn.
//
// Within a namespace, pools that waited are first, so none can keep others waiting. Then
// follow the pools with the most misplaced connections.
type quota struct {
	last string // the namespace that had the last turn
}

// send records as sent, and returns, the changes that fit into one transaction. The others
// wait for later observations.
func (q *quota) send(changes []change) (out []model.Overlay) {
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(b.waits, a.waits), cmp.Compare(b.misplaced, a.misplaced), a.key.Compare(b.key))
	})
	for _, c := range changes {
		c.waits++
	}
	for _, c := range q.take(changes) {
		c.waits = 0
		c.pool.cluster.Shares, c.pool.local.Shares = c.cluster, c.local
		out = append(out, model.PoolShares{Key: c.key, Cluster: c.pool.cluster.ListShares, Local: c.pool.local.ListShares})
	}
	return out
}

func (q *quota) take(changes []change) (taken []change) {
	queues, wanted := map[string][]change{}, map[string]int{}
	for _, c := range changes {
		queues[c.namespace] = append(queues[c.namespace], c)
		wanted[c.namespace] += c.cost()
	}
	share := model.FairShare(maxSlotsAtOnce/2, slices.Collect(maps.Values(wanted)))
	left := maxSlotsAtOnce
	for _, namespace := range slices.Sorted(maps.Keys(queues)) {
		queue, used := queues[namespace], 0
		for len(queue) > 0 && used+queue[0].cost() <= share {
			used += queue[0].cost()
			taken, queue = append(taken, queue[0]), queue[1:]
		}
		left -= used
		if queues[namespace] = queue; len(queue) == 0 {
			delete(queues, namespace)
		}
	}
	return q.takeTurns(taken, queues, left)
}

// takeTurns appends one change of each namespace after the other as long as they fit, and
// begins after the namespace that had the last turn.
func (q *quota) takeTurns(taken []change, queues map[string][]change, left int) []change {
	names := slices.Sorted(maps.Keys(queues))
	next, found := slices.BinarySearch(names, q.last)
	if found {
		next++
	}
	for len(names) > 0 {
		next %= len(names)
		name := names[next]
		queue := queues[name]
		if left -= queue[0].cost(); left < 0 {
			break
		}
		taken, q.last = append(taken, queue[0]), name
		if queues[name] = queue[1:]; len(queue) > 1 {
			next++
		} else {
			names = slices.Delete(names, next, next+1)
		}
	}
	return taken
}

func (c *change) cost() int { return c.pool.cluster.cost(c.cluster) + c.pool.local.cost(c.local) }
