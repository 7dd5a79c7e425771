package connections

import (
	"cmp"
	"context"
	"log/slog"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// Kernel is the part of [kernel.Kernel] that is used, by one goroutine at a time.
type Kernel interface {
	Connections(model.Family) ([]nft.ConnectionCount, error)
	Apply(nft.Batch) (nft.Applied, error)
}

// Config configures [Connections].
type Config struct {
	Kernel Kernel
	Log    *slog.Logger
	// Period is the time between two clean-ups; zero means two minutes.
	Period time.Duration
}

const (
	// cleanUpPeriod is long compared with the time between choosing a packet's endpoint
	// and counting it.
	cleanUpPeriod = 2 * time.Minute
	// minReadInterval is how long a read is reused at least, for several readers.
	minReadInterval = time.Second
	// restFactor is how much longer than a read the next one must wait, so that frequent
	// readers use at most a tenth of a processor.
	restFactor = 9
)

// Connections is a [sync.Follower] that sums up counted connections.
type Connections struct {
	commits *sync.CommitQueue
	kernel  Kernel
	log     *slog.Logger
	period  time.Duration

	mu      stdsync.Mutex // guards the following, and the kernel
	tracker tracker
	readAt  time.Time
	took    time.Duration // the last read
	failing bool          // the last read or clean-up failed
	stale   [len(model.Families)]staleSet
}

// New returns Connections; they do nothing before Run.
func New(c Config) *Connections {
	out := &Connections{
		commits: sync.NewCommitQueue(),
		kernel:  c.Kernel, log: c.Log, period: cmp.Or(c.Period, cleanUpPeriod), tracker: newTracker(),
	}
	for _, f := range model.Families {
		out.stale[f] = newStaleSet()
	}
	return out
}

// Follow implements [sync.Follower].
func (c *Connections) Follow(t sync.Committed) { c.commits.Follow(t) }

// applyCommits brings the tracker up to date. It is called with mu held.
func (c *Connections) applyCommits() {
	for _, t := range c.commits.Take() {
		c.tracker.apply(t, c.stale[:])
	}
}

// Run follows commits and cleans up until ctx ends, which is not an error.
func (c *Connections) Run(ctx context.Context) error {
	cleanUp := time.NewTicker(c.period)
	defer cleanUp.Stop()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.commits.Ready():
			again = c.handleCommits()
		case <-again:
			again = c.handleCommits()
		case <-cleanUp.C:
			c.cleanUp()
		}
	}
}

// handleCommits applies commits. If an address and port has moved to another Service
// port, it reads the kernel to separate their counts, now or when the returned channel
// delivers.
func (c *Connections) handleCommits() (again <-chan time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applyCommits()
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

// Totals are the connections to existing Services that were counted since the tables
// were created, also before this process started.
type Totals struct {
	// Ports are sorted, without those that had no connection.
	Ports []PortTotal
	// Counters is the number of elements in the kernel, at most
	// [nft.MaxConnectionCounts].
	Counters [len(model.Families)]int
}

// Totals reads the kernel, unless that was done within the last second, or longer ago
// where it takes long. If that fails, it returns the result of the last read.
func (c *Connections) Totals() Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applyCommits()
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

// read adds what was counted since the last read, and returns the whole listing.
func (c *Connections) read(f model.Family) ([]nft.ConnectionCount, error) {
	list, err := c.kernel.Connections(f)
	if err != nil {
		return nil, err
	}
	list, err = c.removeMoved(f, list)
	before := c.tracker.counters[f]
	c.tracker.add(f, list)
	if isFull(len(list)) && !isFull(before) {
		c.log.Warn("connection counters full, new pairs of destination and endpoint are not counted",
			"family", f.String(), "counters", len(list))
	}
	return list, err
}

// isFull reports whether that many listed counters mean that the set is full: a listing
// may miss some.
func isFull(counters int) bool { return counters >= nft.MaxConnectionCounts*15/16 }

// logOutcome logs when reads and clean-ups start to fail or to succeed again.
func (c *Connections) logOutcome(err error) {
	switch {
	case err != nil && !c.failing:
		c.log.Warn("connection counts not up to date, retrying", "err", err)
	case err == nil && c.failing:
		c.log.Info("connection counts up to date again")
	}
	c.failing = err != nil
}
