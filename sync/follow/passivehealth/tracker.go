// Package passivehealth finds endpoints that are unresponsive, from the connections of this node's
// clients (passive health checks). With [model.PassiveChecksAvoid] such endpoints get no new
// connections until they reply again.
//
// A node that loses power keeps its pods ready in the API for 40 seconds or more, and a pod that
// hangs without a readiness probe stays ready. Until then one connection of n would wait for a
// timeout.
//
//	nft counter "unanswered" --moved--> connection tracking --reading--> checks ----> model.UnresponsiveEndpoints
//	 (retransmitted first                (readings.go)                   (check.go,        |
//	  packets)                                                            checks.go)       v
//	                                                                probe |      ^     sync.Loop
//	                                                                      v      | reply   |
//	         sync.Loop --Follow--> pools (pools.go)                     probe.go           v
//	                                                              (half-open TCP)     sets, shares
//
// # Observations
//
// Anybody can make a connection without a reply, and most network policies drop packets from a
// node. So something only counts if it is known to have worked:
//
//   - A connection without a reply counts if its client is a witness: connection tracking has
//     another connection of this client to the same Service port, with a reply. Clients that a
//     policy denies have none.
//   - A probe without a reply counts if an earlier one of the same endpoint had a reply. Endpoints
//     of Service ports in use are probed for that, when they join and later, if there is another.
//   - Both count only while other endpoints reply: a probe of another endpoint of the same Service
//     port, the control, must have had a reply since the check began, and in each round after it.
//     Without that, this node or a policy may be the cause.
//
// An endpoint is unresponsive if two probes within a second had no reply, the probes and a control
// count, a witness waits for it meanwhile, and no connection to it had a reply. For one minute it
// is enough that a witness waits for an unresponsive endpoint in the same subnet, which is often
// the subnet of a node. A check begins with any connection without a reply; with a routine probe
// that has none; and if the check of an endpoint in the same subnet found no reply to a first
// probe.
//
// If probes do not count, an endpoint is possibly unresponsive: two witnesses get no reply, or one
// if probes worked before but no control replies. It is reported as such, and nothing is avoided.
// docs/design.md says why.
//
// # What follows
//
// Package model decides which endpoints are avoided: those with the most witnesses first, never more
// than a part of a Service's endpoints, and never the last one. An unresponsive endpoint is probed
// every second, after a minute every five. A reply to a probe or a connection releases it. It then
// stays in use for five seconds, which double up to a minute while it flaps.
//
// # Cost
//
// Which Service ports are in use is known from the counters of connections (every two seconds, 0.05 %)
// and, for those that stay open, from connection tracking.
//
// Each protocol and family is read by itself, the cheapest first, and takes 0.4 % of one processor's
// time while its connections may count, otherwise 0.025 %, over UDP twice that. A walk of a large
// hash table takes 10 ms and more, so UDP would be read once a minute for that. It is read every 25
// seconds, within the 0.4 %. Probes are bounded for each node, and namespaces take turns.
package passivehealth

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
	"kube-vmap/sync/throttle"
)

const (
	// idleTick is how often the kernel's counter is read, reportTick if no Service avoids
	// endpoints. While endpoints are checked, all times are as exact as tick. Each tick wakes up
	// the process, which on an idle machine costs ten times as much as the reading.
	reportTick, idleTick, tick = 2 * time.Second, time.Second, 250 * time.Millisecond
	// probesPerSecond limits the probes of checks, and routinesPerSecond routine ones, of the node;
	// with bursts.
	probesPerSecond, probeBurst     = 100, 200
	routinesPerSecond, routineBurst = 5, 300
)

// Tracking is the kernel's connection tracking; [conntrack.Conntrack] implements it.
type Tracking interface {
	EachUnanswered(f model.Family, p model.Protocol, begin func(), fn func(conntrack.Entry)) error
	EachAnswered(f model.Family, p model.Protocol, begin func(), fn func(conntrack.Entry)) error
	// IsFull reports whether the table has hardly any capacity left for the connections
	// of probes.
	IsFull() (bool, error)
}

// Counter has the kernel's counters of first packets that clients sent again, and of connections;
// [kernel.Kernel] implements it.
type Counter interface {
	Unanswered() (uint64, error)
	Connections(model.Family) ([]nft.ConnectionCount, error)
}

// Config configures a [Tracker].
type Config struct {
	NodeName string
	Tracking Tracking
	Counter  Counter
	// Probe probes a TCP port; see [Prober.Probe].
	Probe func(ctx context.Context, to netip.AddrPort, wait time.Duration) error
	// Overlays receives the changes, for [sync.Config].
	Overlays   chan<- []model.Overlay
	Recorder   sync.Recorder // nil means no events
	Log        *slog.Logger
	Background *throttle.Budget // of all background work
}

// A Tracker is a [sync.Follower] that finds unresponsive endpoints. All but Follow and the
// methods that report state is done by one goroutine, Run.
type Tracker struct {
	Config
	*follow.Queue
	cpuTime func() time.Duration // constant, except in tests

	pools    pools
	avoiding int // pools that avoid endpoints
	checks   checks
	notices  *sync.Notices
	quiet    *sync.Notices // only log lines

	lanes   map[kind]*lane
	counter uint64            // of the kernel, when it was last read
	counts  throttle.Throttle // of the counters of connections
	outcome follow.Outcome    // of readings
	// budget is for probes of checks, routineBudget for others.
	budget, routineBudget *rate.Limiter
	routinesAt            time.Time // when routine probes were last looked for

	group    errgroup.Group // of probes
	results  chan probeResult
	requests chan func() // functions for Run's goroutine to call
	ended    chan struct{}

	probes, changes, unresponsive atomic.Int64 // for metrics
	inUse, reached                atomic.Int64 // endpoints
	late                          atomic.Int64 // a time.Duration
}

// A probeResult is the outcome of a probe.
type probeResult struct {
	endpoint
	began   time.Time // of the check's phase when the probe was sent
	sent    time.Time
	outcome outcome
}

// New returns a Tracker; it does nothing before Run.
func New(c Config) *Tracker {
	t := &Tracker{
		Config: c, Queue: follow.NewQueue(), cpuTime: throttle.ThreadCPUTime,
		notices: sync.NewNotices(c.Recorder, c.Log), quiet: sync.NewNotices(nil, c.Log),
		pools:  pools{all: map[model.Match]*pool{}, keys: map[model.Match]model.Match{}, kinds: map[kind]int{}},
		checks: newChecks(), lanes: map[kind]*lane{},
		budget:        rate.NewLimiter(probesPerSecond, probeBurst),
		routineBudget: rate.NewLimiter(routinesPerSecond, routineBurst),
		results:       make(chan probeResult), requests: make(chan func()), ended: make(chan struct{}),
	}
	t.counts = c.Background.Throttle(0)
	t.counts.Factor, t.counts.ProcessorTime = countFactor, func() time.Duration { return t.cpuTime() }
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			t.lanes[kind{f, p}] = &lane{kind: kind{f, p}, budget: rate.NewLimiter(readsPerSecond, readBurst)}
		}
	}
	return t
}

// Run works until ctx ends, which is not an error. While no Service has passive health checks it
// only waits.
func (t *Tracker) Run(ctx context.Context) error {
	defer close(t.ended)
	defer func() { _ = t.group.Wait() }() // probes return no errors
	var next <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.Ready():
			t.applyCommits(ctx)
		case r := <-t.results:
			t.handleResult(ctx, r)
		case request := <-t.requests:
			request()
		case <-next:
			next = nil
			t.tick(ctx, time.Now())
		}
		switch {
		case len(t.pools.all) == 0:
			next = nil
			t.inUse.Store(0)
			t.reached.Store(0)
			t.late.Store(0)
		case next == nil:
			next = time.After(t.untilNextTick())
		}
	}
}

// untilNextTick returns the time until the next tick.
func (t *Tracker) untilNextTick() time.Duration {
	switch {
	case len(t.checks.active) > 0:
		return tick
	case t.avoiding > 0:
		return idleTick
	}
	return reportTick
}

// applyCommits brings the pools up to date, and forgets endpoints that were removed.
func (t *Tracker) applyCommits(ctx context.Context) {
	changed := map[model.Match]*pool{}
	var replaced []*pool
	for _, c := range t.Take() {
		set, old := t.pools.apply(c)
		for _, p := range set {
			changed[p.key] = p
		}
		replaced = append(replaced, old...)
		t.count(set, 1)
		t.count(old, -1)
	}
	maps.DeleteFunc(changed, func(m model.Match, p *pool) bool { return t.pools.all[m] != p })
	t.checks.replace(replaced, &t.pools)
	for _, p := range changed {
		t.checks.join(time.Now(), p)
		t.checks.joinUnresponsive(p)
	}
	t.publish(ctx, slices.Collect(maps.Values(changed)))
}

// count counts pools that were added, or removed with the sign -1.
func (t *Tracker) count(list []*pool, sign int) {
	for _, p := range list {
		t.unresponsive.Add(int64(sign * len(p.sent)))
		if p.mode == model.PassiveChecksAvoid {
			t.avoiding += sign
		}
	}
}

// tick does all work that is due.
func (t *Tracker) tick(ctx context.Context, now time.Time) {
	t.readCounter()
	var changed []*pool
	for _, c := range t.readDue(now) {
		t.reportChange(c, phaseProbing)
		changed = append(changed, c.pools...)
	}
	t.checks.spread(now)
	t.probe(ctx, now, append(t.checks.takeControls(), t.checks.due(now)...), t.budget)
	if now.Sub(t.routinesAt) >= reportTick {
		t.routinesAt = now
		t.readCounts(now)
		due, reached := t.checks.routines(now)
		t.inUse.Store(int64(len(t.checks.all)))
		t.reached.Store(int64(reached))
		t.probe(ctx, now, due, t.routineBudget)
	}
	t.publish(ctx, changed)
}

// probe sends probes as far as the budget allows, to one endpoint of each namespace after the
// other. An endpoint of several namespaces is in the shortest queue.
func (t *Tracker) probe(ctx context.Context, now time.Time, due []*check, budget *rate.Limiter) {
	queues := map[string][]*check{}
	for _, c := range due {
		shortest := c.namespace
		for _, p := range c.pools {
			if ns := p.service.Namespace; len(queues[ns]) < len(queues[shortest]) {
				shortest = ns
			}
		}
		queues[shortest] = append(queues[shortest], c)
	}
	names := slices.Collect(maps.Keys(queues)) // in random order
	for len(names) > 0 {
		for _, name := range names {
			if !budget.AllowN(now, 1) {
				return
			}
			t.probeOne(ctx, now, queues[name][0])
			queues[name] = queues[name][1:]
		}
		names = slices.DeleteFunc(names, func(name string) bool { return len(queues[name]) == 0 })
	}
}

// probeOne sends a probe, and adds the controls that it needs.
func (t *Tracker) probeOne(ctx context.Context, now time.Time, c *check) {
	r, wait := probeResult{endpoint: c.endpoint, began: c.began, sent: now}, c.probing(now)
	if c.phase != phaseIdle {
		t.checks.addControls(c, now)
	}
	t.probes.Add(1)
	t.group.Go(func() error {
		r.outcome = outcomeOf(t.Probe(ctx, r.target(), wait))
		sync.Send(ctx, t.results, r)
		return nil
	})
}

// handleResult handles the outcome of a probe. If a probe of an earlier phase has no reply, that
// says nothing.
func (t *Tracker) handleResult(ctx context.Context, r probeResult) {
	now, c := time.Now(), t.checks.all[r.endpoint]
	if c == nil {
		return
	}
	released, in := false, c.in
	switch {
	case r.outcome == outcomeReply:
		released = c.reply(now)
	case !r.began.Equal(c.began):
	case r.outcome == outcomeTimeout:
		released = c.noReply(now, r.sent)
	default:
		released = c.unknown(now)
	}
	t.checks.update(c)
	if released {
		t.reportChange(c, phaseUnresponsive)
	}
	if released || !slices.Equal(c.in, in) {
		t.publish(ctx, c.pools)
	}
}
