// Package connections counts connections by Service port and endpoint, and cleans up
// the kernel's counters.
//
// The kernel counts by itself (see package nft): the set connections has an element with
// a counter for each pair of a destination and the endpoint that it was translated to. It
// knows neither Services nor whether an endpoint still exists.
//
//	sync.Loop --Follow: commits------> frontends and endpoints of each Service port
//	                                                      |
//	/metrics --Totals----> read the set, if 1 s old    ---+--> totals by Service port and endpoint
//	                                                      |
//	every second --------> read it, if it was full     ---+--> evict
//	                                                      |
//	every two minutes ---> read it, find stale elements --+--> fold and delete, in one transaction
//
// Totals never decrease while the process runs: each read adds the growth of every pair.
// So a listing of a growing set may safely miss some pairs, and another program may flush
// the set.
//
// The set has a limit, and clients choose how many pairs of a Service they use. If a read
// finds it nearly full, namespaces with more than their fair share of half of it lose the
// elements of their largest frontends, which the kernel does not count for a while. Totals
// wait only briefly for a read, since reading a full set takes seconds.
//
// An element is stale if its endpoint no longer serves the Service. It is folded: its count is
// added to an element of the Service's former endpoints, which has zeros in place of the endpoint,
// and it is deleted. Elements of destinations without a Service, such as hostPorts that other
// programs translate, are deleted, too. Both happen only to elements that have been stale for two
// minutes: packets on their way are then no longer counted there. (If an endpoint comes back
// between the read and the transaction, a few of its connections may be lost.)
//
// An address and port that moves from one Service port to another keeps its elements. So elements
// of addresses that a Service port has lost are deleted with the next read, which is immediate if
// another has them now. Connections between the change and the read are not counted. Moves while
// no process runs go unnoticed: the next process adds the counts to the Service port that has the
// address and port then.
package connections

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
	"kube-vmap/sync/throttle"
)

// Kernel is the part of [kernel.Kernel] in use, by one goroutine at a time.
type Kernel interface {
	Reader
	Refusals(model.Family) ([]nft.RefusalCount, error)
	Apply(nft.Batch) (nft.Applied, error)
}

// A Reader reads the kernel's counts, and the destinations that it does not count.
type Reader interface {
	Connections(model.Family) ([]nft.ConnectionCount, error)
	Uncounted(model.Family) ([]model.Match, error)
	Counters(model.Family) ([nft.Counters]uint64, error)
}

// Config configures [Connections].
type Config struct {
	Kernel     Kernel
	Log        *slog.Logger
	Recorder   sync.Recorder    // nil means no events
	Background *throttle.Budget // of all background work
}

const (
	// cleanUpPeriod is long compared with the time between choosing a packet's endpoint
	// and counting it.
	cleanUpPeriod = 2 * time.Minute
	// minReadInterval is how long a read is reused at least, for several readers.
	minReadInterval = time.Second
	// pollPeriod is the time between reads of the counter of connections that were not
	// counted because the set is full.
	pollPeriod = time.Second
	// maxWait is how long Totals waits for a read. Reading a full set takes seconds.
	maxWait = 200 * time.Millisecond
)

// Connections is a [sync.Follower] that sums up counted connections. All but Follow and
// Totals is done by one goroutine, Run.
type Connections struct {
	Config
	*follow.Queue
	requests chan chan struct{} // of Totals; closed when new totals are published

	tracker tracker
	pace    throttle.Throttle // of reads
	readAt  time.Time
	outcome follow.Outcome // of reads and clean-ups
	stale   [len(model.Families)]staleSet
	dropped [len(model.Families)]dropped
	notices *sync.Notices
	rose    bool // a total of these, since the last read

	mu        stdsync.Mutex // guards the following
	published Totals
}

// New returns Connections; they do nothing before Run.
func New(c Config) *Connections {
	out := &Connections{
		Config: c, Queue: follow.NewQueue(), requests: make(chan chan struct{}), tracker: newTracker(),
		pace: c.Background.Throttle(0), notices: sync.NewNotices(c.Recorder, c.Log),
	}
	for _, f := range model.Families {
		out.stale[f] = newStaleSet()
	}
	return out
}

// applyCommits brings the tracker up to date.
func (c *Connections) applyCommits() {
	for _, t := range c.Take() {
		c.tracker.apply(t, c.stale[:])
	}
}

// Run follows commits, reads and cleans up until ctx ends, which is not an error.
func (c *Connections) Run(ctx context.Context) error {
	cleanUp, poll := time.NewTicker(cleanUpPeriod), time.NewTicker(pollPeriod)
	defer cleanUp.Stop()
	defer poll.Stop()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.Ready():
			again = c.handleCommits()
		case <-again:
			again = c.handleCommits()
		case <-cleanUp.C:
			c.cleanUp()
		case <-poll.C:
			c.poll()
		case done := <-c.requests:
			c.handleRequest()
			close(done)
		}
	}
}

// handleCommits applies commits. If an address and port has moved to another Service port, it reads
// the kernel to separate their counts, now or when the returned channel delivers.
func (c *Connections) handleCommits() (again <-chan time.Time) {
	c.applyCommits()
	if !c.tracker.urgent {
		return nil
	}
	if wait := c.pace.Remaining(); wait > 0 {
		return time.After(wait)
	}
	c.readAll()
	if !c.tracker.urgent {
		return nil
	}
	return time.After(max(minReadInterval, c.pace.Remaining()))
}

// handleRequest publishes new totals. It reads the kernel, unless that was done within the
// last second, or longer ago where it takes long.
func (c *Connections) handleRequest() {
	c.applyCommits()
	if time.Since(c.readAt) >= minReadInterval && c.pace.Remaining() == 0 {
		c.readAll()
	}
	t := Totals{Ports: c.tracker.totals(), Counters: c.tracker.counters}
	for f := range c.dropped {
		t.NotCounted[f], t.Uncounted[f] = c.dropped[f].total, c.dropped[f].frontends
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.published = t
}

// Totals are the connections to existing Services that were counted since the tables
// were created, also before this process started.
type Totals struct {
	// Ports are sorted, without those that had no connection.
	Ports []PortTotal
	// Counters is the number of elements in the kernel, at most [nft.MaxConnectionCounts].
	Counters [len(model.Families)]int
	// NotCounted is how many connections were not counted because the set was full or the kernel
	// had no memory, Uncounted how many frontends are not counted to save capacity.
	NotCounted [len(model.Families)]uint64
	Uncounted  [len(model.Families)]int
}

// Totals returns the current totals or, if reading the kernel fails or takes long, the
// last known ones.
func (c *Connections) Totals() Totals {
	done := make(chan struct{})
	late := time.NewTimer(maxWait)
	defer late.Stop()
	select {
	case c.requests <- done:
		select {
		case <-done:
		case <-late.C:
		}
	case <-late.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.published
}

func (c *Connections) readAll() {
	c.tracker.urgent, c.rose = false, false
	c.forFamilies(func(f model.Family) error {
		_, err := c.read(f)
		refusals, refusalsErr := c.Kernel.Refusals(f)
		if refusalsErr == nil {
			c.tracker.refusals[f] = refusals
		}
		return cmp.Or(err, refusalsErr)
	})
}

// forFamilies reads each family, and begins the pause.
func (c *Connections) forFamilies(read func(model.Family) error) {
	var errs [len(model.Families)]error
	c.pace.Do(func() {
		for _, f := range model.Families {
			errs[f] = read(f)
		}
	})
	c.readAt = time.Now()
	c.outcome.Log(c.Log, errors.Join(errs[:]...),
		"connection counts not up to date, retrying", "connection counts up to date again")
}

// read adds what was counted since the last read, and returns the whole listing. If the set
// is nearly full, it evicts elements.
func (c *Connections) read(f model.Family) ([]nft.ConnectionCount, error) {
	list, err := c.Kernel.Connections(f)
	if err != nil {
		c.tracker.urgent = c.tracker.urgent || len(c.tracker.left[f]) > 0
		return nil, err
	}
	list, err = c.removeLeft(f, list)
	before := c.tracker.counters[f]
	c.tracker.add(f, list)
	if nft.IsFull(len(list)) && !nft.IsFull(before) {
		c.Log.Warn("connection counters full, new pairs of destination and endpoint are not counted",
			"family", f.String(), "counters", len(list))
	}
	if err == nil && len(list) > shareFrom {
		list, err = c.evict(f, list)
	}
	if uncounted, err := c.Kernel.Uncounted(f); err != nil {
		c.Log.Debug("set of uncounted frontends not readable", "family", f.String(), "err", err)
	} else {
		c.dropped[f].frontends = len(uncounted)
	}
	return list, err
}
