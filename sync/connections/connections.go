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
	Connections(model.Family) ([]nft.Counted, error)
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
	// sweepPeriod is long beside what a packet takes from where its endpoint is chosen
	// to where it is counted, also if the affinity map still has to forget the endpoint.
	sweepPeriod = 2 * time.Minute
	// fresh is how long a reading is good at least: several may ask at the same time.
	fresh = time.Second
	// rest is how much longer nothing is read for a sum than the last reading took, so
	// that whoever asks all the time costs no more than a tenth of a processor.
	rest = 9
)

// Connections is a [sync.Follower] that sums up counted connections.
type Connections struct {
	kernel Kernel
	log    *slog.Logger
	period time.Duration

	mu      gosync.Mutex // guards all that follows, and the kernel
	state   state
	readAt  time.Time
	took    time.Duration // the last reading
	failing bool          // the last reading failed, or the last sweep
	sweeps  [len(model.Families)]sweep

	newsMu gosync.Mutex
	news   []sync.Taken
	// told has room for one: that there are news.
	told chan struct{}
}

// New makes Connections; nothing happens before Run.
func New(c Config) *Connections {
	out := &Connections{
		kernel: c.Kernel, log: c.Log, period: cmp.Or(c.Period, sweepPeriod),
		state: newState(), told: make(chan struct{}, 1),
	}
	for _, f := range model.Families {
		out.sweeps[f] = newSweep()
	}
	return out
}

// Follow implements [sync.Follower]. It only notes what is for others to do.
func (c *Connections) Follow(t sync.Taken) {
	c.newsMu.Lock()
	defer c.newsMu.Unlock()
	c.news = append(c.news, t)
	select {
	case c.told <- struct{}{}:
	default: // told already
	}
}

// takeNews brings the state up to date. It is called with mu held.
func (c *Connections) takeNews() {
	c.newsMu.Lock()
	news := c.news
	c.news = nil
	c.newsMu.Unlock()
	for _, t := range news {
		c.state.take(t, c.sweeps[:])
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
		case <-c.told:
			again = c.hear()
		case <-again:
			again = c.hear()
		case <-look.C:
			c.sweep()
		}
	}
}

// hear takes news. If an address and port is another Service port's now, the kernel is
// read at once, to tell what is whose, or when what is returned says so.
func (c *Connections) hear() (again <-chan time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takeNews()
	if !c.state.moves.any() {
		return nil
	}
	if wait := rest*c.took - time.Since(c.readAt); wait > 0 {
		return time.After(wait)
	}
	c.readAll()
	if !c.state.moves.any() {
		return nil
	}
	return time.After(max(fresh, rest*c.took))
}

// Totals are the connections to Services that are there, as far as they were counted
// since the tables were made: by processes before this one, too.
type Totals struct {
	// Ports are sorted; those that had no connection are not among them.
	Ports []PortTotal
	// Counters are how many pairs the kernel tells apart, of [nft.MostCounted].
	Counters [len(model.Families)]int
}

// Totals reads the kernel, if that was not done within the last second, or longer
// where there is much to read. If it cannot be read, it is as it was the last time.
func (c *Connections) Totals() Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takeNews()
	if time.Since(c.readAt) >= max(fresh, rest*c.took) {
		c.readAll()
	}
	return Totals{Ports: c.state.ports(), Counters: c.state.counters}
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
	c.tell(failed)
}

// read adds what was counted since the last reading. It returns all there is.
func (c *Connections) read(f model.Family) ([]nft.Counted, error) {
	list, err := c.kernel.Connections(f)
	if err != nil {
		return nil, err
	}
	list, err = c.settle(f, list)
	before := c.state.counters[f]
	c.state.add(f, list)
	if full(len(list)) && !full(before) {
		c.log.Warn("there is no room for more counters: connections between pairs that are not known yet are not counted",
			"family", f.String(), "counters", len(list))
	}
	return list, err
}

// full reports whether so many counters are as good as all that there may be: a
// listing may miss some.
func full(counters int) bool { return counters >= nft.MostCounted*15/16 }

// tell logs that something begins or ceases to fail.
func (c *Connections) tell(err error) {
	switch {
	case err != nil && !c.failing:
		c.log.Warn("counted connections are not up to date, trying again", "err", err)
	case err == nil && c.failing:
		c.log.Info("counted connections are up to date again")
	}
	c.failing = err != nil
}
