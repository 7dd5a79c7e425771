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
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
)

const (
	// idleTick is how often the kernel's counter is read, reportTick if no Service avoids endpoints.
	// While endpoints are asked, all times are as exact as tick. Each makes the process wake up,
	// which on an idle machine costs more than the reading.
	reportTick, idleTick, tick = 2 * time.Second, 500 * time.Millisecond, 250 * time.Millisecond
	// Reading connection tracking takes 0.4 % of a processor's time while the counter moves, with
	// bursts, and otherwise one part of idleFactor.
	readsPerSecond, readBurst = 4_000, 1_000_000 // microseconds
	idleFactor                = 2500
	// questionsPerSecond limits the questions about endpoints.
	questionsPerSecond = 50
)

// Tracking is the kernel's connection tracking; [conntrack.Conntrack] implements it.
type Tracking interface {
	EachUnanswered(begin func(), fn func(conntrack.Entry)) error
	EachAnswered(by netip.Addr, begin func(), fn func(conntrack.Entry)) error
	// IsFull reports whether the table has hardly any room for the connections of questions.
	IsFull() (bool, error)
}

// Counter is the kernel's counter of first packets that clients sent again;
// [kernel.Kernel] implements it.
type Counter interface{ Unanswered() (uint64, error) }

// Config configures a [Tracker].
type Config struct {
	NodeName string
	Tracking Tracking
	Counter  Counter
	// Ask asks a TCP port; see [Connect].
	Ask func(ctx context.Context, to netip.AddrPort, wait time.Duration) error
	// EndpointsByNode returns the endpoints of the nodes that run some of these; that of
	// [sync.Loop].
	EndpointsByNode func(context.Context, []netip.Addr) (map[string][]netip.Addr, error)
	// Kubelet returns where the kubelet of a node listens; nil without an API server.
	Kubelet func(ctx context.Context, name string) ([]netip.AddrPort, error)
	// Unresponsive receives the changes, for [sync.Config].
	Unresponsive chan<- []model.UnresponsiveEndpoints
	Recorder     sync.Recorder // nil means no events
	Log          *slog.Logger
}

// A Tracker is a [sync.Follower] that finds endpoints that do not answer. All but Follow and the
// methods that report state is done by one goroutine, Run.
type Tracker struct {
	Config
	*sync.CommitQueue
	cpuTime func() time.Duration // constant, except in tests

	pools    pools
	avoiding int // pools that avoid endpoints
	checks   checks
	notices  *sync.Notices
	nodes    map[string]*node
	kubelets kubelets
	// addrsOf are the endpoints of nodes that checks run on.
	addrsOf map[string][]netip.Addr
	located time.Time // when it was last asked which endpoints silent nodes have

	counter   uint64    // of the kernel, when it was last read
	moved     bool      // since connection tracking was last read
	lastRead  time.Time // of connections without an answer
	lastRound time.Time // of those with one
	// readCost and answeredCost are the processor time of these readings.
	readCost, answeredCost time.Duration
	failing                bool          // the last read failed
	readBudget             *rate.Limiter // in microseconds of processor time
	budget                 *rate.Limiter // of questions

	sampling    bool      // other nodes are being asked
	sampleBegan time.Time // when they were last asked
	sampled     time.Time // when the last sample began that has ended

	group       errgroup.Group // of questions
	answers     chan questionAnswer
	nodeAnswers chan nodeAnswer
	samples     chan nodesAnswer

	requests chan func() // functions for Run's goroutine to call
	ended    chan struct{}

	questions, changes, notAnswering atomic.Int64 // for metrics
	cutOff                           atomic.Bool  // this node itself has no network
}

// A questionAnswer is the outcome of a question.
type questionAnswer struct {
	endpoint
	began   time.Time // of the check's phase when it was asked
	outcome outcome
}

// New returns a Tracker; it does nothing before Run.
func New(c Config) *Tracker {
	return &Tracker{
		Config: c, CommitQueue: sync.NewCommitQueue(), cpuTime: sync.ThreadCPUTime,
		notices: sync.NewNotices(c.Recorder, c.Log),
		pools:   pools{}, checks: checks{all: map[endpoint]*check{}}, nodes: map[string]*node{},
		kubelets: kubelets{ask: c.Kubelet, known: map[string]kubelet{}},
		addrsOf:  map[string][]netip.Addr{}, budget: rate.NewLimiter(questionsPerSecond, questionsPerSecond),
		readBudget: rate.NewLimiter(readsPerSecond, readBurst),
		answers:    make(chan questionAnswer), nodeAnswers: make(chan nodeAnswer), samples: make(chan nodesAnswer),
		requests: make(chan func()), ended: make(chan struct{}),
	}
}

// Run works until ctx ends, which is not an error. While no Service has passive health checks it
// only waits.
func (t *Tracker) Run(ctx context.Context) error {
	defer close(t.ended)
	defer func() { _ = t.group.Wait() }() // questions return no errors
	var next <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.Ready():
			t.applyCommits(ctx)
		case a := <-t.answers:
			t.handleAnswer(ctx, a)
		case a := <-t.nodeAnswers:
			now := time.Now()
			if t.nodeAnswered(now, a) || t.decideNodes(ctx, now) {
				t.publishAll(ctx)
			}
		case a := <-t.samples:
			t.handleSample(a)
			if t.decideNodes(ctx, time.Now()) {
				t.publishAll(ctx)
			}
		case request := <-t.requests:
			request()
		case <-next:
			next = nil
			t.tick(ctx, time.Now())
		}
		switch {
		case len(t.pools) == 0:
			next = nil
			t.cutOff.Store(false) // no other node is asked any more
			clear(t.nodes)
		case next == nil:
			next = time.After(t.untilNextTick())
		}
	}
}

// untilNextTick returns the time until the next tick.
func (t *Tracker) untilNextTick() time.Duration {
	switch {
	case t.checks.any(phaseAsking) || len(t.nodes) > 0:
		return tick
	case t.avoiding > 0:
		return idleTick
	}
	return reportTick
}

// applyCommits brings the pools up to date, and forgets the endpoints that are gone.
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
	idle := len(t.checks.all) == 0 && len(t.nodes) == 0
	maps.DeleteFunc(changed, func(m model.Match, p *pool) bool { return t.pools[m] != p || idle && len(p.sent) == 0 })
	t.checks.forget(replaced, t.pools)
	for _, p := range changed {
		t.checks.join(p)
	}
	t.publish(ctx, slices.Collect(maps.Values(changed)))
}

// count counts pools that have come, or gone with the sign -1.
func (t *Tracker) count(list []*pool, sign int) {
	for _, p := range list {
		t.notAnswering.Add(int64(sign * len(p.sent)))
		if p.mode == model.PassiveChecksAvoid {
			t.avoiding += sign
		}
	}
}

// tick does what is due.
func (t *Tracker) tick(ctx context.Context, now time.Time) {
	t.readCounter()
	t.readUnanswered(now)
	silent := t.checks.silentChecks(now)
	t.locate(ctx, silent)
	t.askNodes(ctx, now, silent)
	t.sampleNodes(ctx, now, silent)
	var changed []*pool
	for _, c := range append(t.retries(now), t.decide(now, silent)...) {
		t.reportChange(c)
		changed = append(changed, c.pools...)
	}
	t.ask(ctx, now)
	if t.locateSilent(ctx, now) {
		t.publishAll(ctx)
		return
	}
	t.publish(ctx, changed)
}

// retries lets endpoints be used again that have been avoided for long, and returns them. That
// costs connections until it is decided again, so there must be a budget for it.
func (t *Tracker) retries(now time.Time) []*check {
	if t.readBudget.TokensAt(now) < t.decisionCost() {
		return nil
	}
	return t.checks.retries(now)
}

// decide reads what silent endpoints have answered so far, and makes those unresponsive of which
// enough is known. It returns these.
func (t *Tracker) decide(now time.Time, silent []*check) (changed []*check) {
	unread := slices.DeleteFunc(silent, func(c *check) bool { return c.answered != nil })
	due := slices.DeleteFunc(t.checks.decisions(now), func(c *check) bool {
		return t.sampled.Before(c.began) // it is not known yet whether this node has a network
	})
	if len(due) > 0 {
		if full, err := t.Tracking.IsFull(); full || err != nil {
			due = nil
		}
	}
	answered := t.readAnswered(now, slices.Concat(unread, due))
	for _, c := range unread {
		c.answered = answered[c.endpoint]
	}
	for _, c := range due {
		if ids := answered[c.endpoint]; ids != nil && c.decide(now, ids, t.cutOff.Load()) {
			changed = append(changed, c)
		}
	}
	return changed
}

// ask sends the questions that are due, as far as the budget allows, to one endpoint of each
// namespace after the other. Endpoints on nodes that do not answer are not asked.
func (t *Tracker) ask(ctx context.Context, now time.Time) {
	queues := map[string][]*check{}
	for _, c := range t.checks.due(now) {
		if n := t.nodes[c.node]; n == nil || !n.silent {
			ns := c.pools[0].service.Namespace
			queues[ns] = append(queues[ns], c)
		}
	}
	names := slices.Collect(maps.Keys(queues)) // in random order
	for len(names) > 0 {
		for _, name := range names {
			if !t.budget.AllowN(now, 1) {
				return
			}
			c := queues[name][0]
			wait := c.sent(now)
			t.questions.Add(1)
			queues[name] = queues[name][1:]
			a := questionAnswer{endpoint: c.endpoint, began: c.began}
			t.group.Go(func() error { t.askOne(ctx, a, wait); return nil })
		}
		names = slices.DeleteFunc(names, func(name string) bool { return len(queues[name]) == 0 })
	}
}

// askOne asks an endpoint and hands over the answer.
func (t *Tracker) askOne(ctx context.Context, a questionAnswer, wait time.Duration) {
	a.outcome = outcomeOf(t.Ask(ctx, a.target(), wait))
	sync.Send(ctx, t.answers, a)
}

// handleAnswer handles the outcome of a question.
func (t *Tracker) handleAnswer(ctx context.Context, a questionAnswer) {
	now := time.Now()
	if c := t.checks.answer(now, a); c != nil {
		t.reportChange(c)
		t.publish(ctx, c.pools)
	}
}
