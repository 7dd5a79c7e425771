package leastconn

import (
	"context"
	"log/slog"
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
