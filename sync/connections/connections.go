package connections

import (
	"cmp"
	"context"
	"log/slog"
	gosync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// Kernel is what is needed of the kernel; see [kernel.Kernel]. It is used by one
// goroutine at a time.
type Kernel interface {
	Connections(model.Family) ([]nft.ConnectionCount, error)
	Apply(nft.Batch) (nft.Applied, error)
}

// Config is what [Connections] are told once.
type Config struct {
	Kernel Kernel
	Log    *slog.Logger
	// Period is the time between two looks for what is stale; zero means two minutes.
	Period time.Duration
}

const (
	// cleanUpPeriod is long beside what a packet takes from where its endpoint is chosen
	// to where it is counted, also if the affinity map still has to forget the endpoint.
	cleanUpPeriod = 2 * time.Minute
	// minReadInterval is how long a reading is good at least: several may ask at the same time.
	minReadInterval = time.Second
	// restFactor is how much longer nothing is read for a sum than the last reading took, so
	// that whoever asks all the time costs no more than a tenth of a processor.
	restFactor = 9
)

// Connections is a [sync.Follower] that sums up counted connections.
type Connections struct {
	kernel Kernel
	log    *slog.Logger
	period time.Duration

	mu      gosync.Mutex // guards all that follows, and the kernel
	tracker tracker
	readAt  time.Time
	took    time.Duration // the last reading
	failing bool          // the last reading failed, or the last sweep
	stale   [len(model.Families)]staleSet

	newsMu  gosync.Mutex
	updates []sync.Committed
	// wake has room for one: that there are news.
	wake chan struct{}
}

// New makes Connections; nothing happens before Run.
func New(c Config) *Connections {
	out := &Connections{
		kernel: c.Kernel, log: c.Log, period: cmp.Or(c.Period, cleanUpPeriod),
		tracker: newTracker(), wake: make(chan struct{}, 1),
	}
	for _, f := range model.Families {
		out.stale[f] = newStaleSet()
	}
	return out
}

// Follow implements [sync.Follower]. It only notes what is for others to do.
func (c *Connections) Follow(t sync.Committed) {
	c.newsMu.Lock()
	defer c.newsMu.Unlock()
	c.updates = append(c.updates, t)
	select {
	case c.wake <- struct{}{}:
	default: // told already
	}
}

// applyUpdates brings the state up to date. It is called with mu held.
func (c *Connections) applyUpdates() {
	c.newsMu.Lock()
	news := c.updates
	c.updates = nil
	c.newsMu.Unlock()
	for _, t := range news {
		c.tracker.apply(t, c.stale[:])
	}
}

// Run works until ctx ends, which is no error.
func (c *Connections) Run(ctx context.Context) error {
	look := time.NewTicker(c.period)
	defer look.Stop()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
			again = c.handleUpdates()
		case <-again:
			again = c.handleUpdates()
		case <-look.C:
			c.cleanUp()
		}
	}
}

// handleUpdates takes news. If an address and port is another Service port's now, the kernel is
// read at once, to tell what is whose, or when what is returned says so.
func (c *Connections) handleUpdates() (again <-chan time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applyUpdates()
	if !c.tracker.moves.anyMoved() {
		return nil
	}
	if wait := restFactor*c.took - time.Since(c.readAt); wait > 0 {
		return time.After(wait)
	}
	c.readAll()
	if !c.tracker.moves.anyMoved() {
		return nil
	}
	return time.After(max(minReadInterval, restFactor*c.took))
}

// Totals are the connections to Services that are there, as far as they were counted
// since the tables were made: by processes before this one, too.
type Totals struct {
	// Ports are sorted; those that had no connection are not among them.
	Ports []PortTotal
	// Counters are how many pairs the kernel tells apart, of [nft.MaxConnectionCounts].
	Counters [len(model.Families)]int
}

// Totals reads the kernel, if that was not done within the last second, or longer
// where there is much to read. If it cannot be read, it is as it was the last time.
func (c *Connections) Totals() Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applyUpdates()
	if time.Since(c.readAt) >= max(minReadInterval, restFactor*c.took) {
		c.readAll()
	}
	return Totals{Ports: c.tracker.totals(), Counters: c.tracker.counters}
}

// readAll reads both families.
func (c *Connections) readAll() {
	start := time.Now()
	var failed error
	for _, f := range model.Families {
		if _, err := c.read(f); err != nil {
			failed = err
		}
	}
	c.readAt = time.Now()
	c.took = c.readAt.Sub(start)
	c.logOutcome(failed)
}

// read adds what was counted since the last reading. It returns all there is.
func (c *Connections) read(f model.Family) ([]nft.ConnectionCount, error) {
	list, err := c.kernel.Connections(f)
	if err != nil {
		return nil, err
	}
	list, err = c.removeMoved(f, list)
	before := c.tracker.counters[f]
	c.tracker.add(f, list)
	if isFull(len(list)) && !isFull(before) {
		c.log.Warn("there is no room for more counters: connections between pairs that are not known yet are not counted",
			"family", f.String(), "counters", len(list))
	}
	return list, err
}

// isFull reports whether so many counters are as good as all that there may be: a
// listing may miss some.
func isFull(counters int) bool { return counters >= nft.MaxConnectionCounts*15/16 }

// logOutcome logs that something begins or ceases to fail.
func (c *Connections) logOutcome(err error) {
	switch {
	case err != nil && !c.failing:
		c.log.Warn("counted connections are not up to date, trying again", "err", err)
	case err == nil && c.failing:
		c.log.Info("counted connections are up to date again")
	}
	c.failing = err != nil
}
