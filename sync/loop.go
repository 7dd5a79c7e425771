package sync

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// Kernel is what the loop needs of the kernel.
type Kernel interface {
	// Read returns what the kernel holds under our name.
	Read() (nft.Tables, error)
	// Apply makes the kernel take the batch whole or not at all; of a large one in steps
	// it may take some, which the result says. An error of type *nft.Error is the kernel's refusal;
	// after any other error it is not known what the kernel holds.
	Apply(nft.Batch) (nft.Applied, error)
	// Foreign is a number that changes whenever others than the loop, and those it
	// shares the kernel with, change nf_tables.
	ForeignChanges() (uint32, error)
}

// Loop keeps the kernel as the source wants it. One goroutine owns all state:
// it takes what events have come, works out one batch, applies it, and only
// then believes it.
//
//	            +---- the next change is planned against it <----+
//	            v                                                |
//	events --> batch --> taken: what was planned is what stands -+
//	            ^  \---> refused: read the kernel, compare all --+
//	            |   \--> unknown: the same, after a while -------+
//	            +------------------------------------------------+
//
// A change that is refused is proof against the Service it names only if nobody else
// can have changed our tables: then the Service port is set aside and the rest goes
// again, at once. Else the kernel is read first, and what it refuses on top of
// what was just read is set aside.
type Loop struct {
	source    Source
	kernel    Kernel
	addresses AddressSource
	observer  Observer
	recorder  Recorder
	notices   notices
	followers []Follower
	// pending is what followers have still to be told.
	untold Committed
	log    *slog.Logger

	state *state
	// rules is what the kernel holds; nil when that is not known, at the start
	// and after an error. Then before is what it last was, for who looks.
	rules         *nft.Ruleset
	lastInstalled *lastInstalled
	recovery      *delay // runs while the kernel is left alone after an error
	drift         *drift
	full          []nft.SetID // sets that take no more, to be made anew
	refused       refusals
	trial         *delay // runs until Service ports that are left out are tried again
	pause         *pause // runs while the kernel is left alone after a batch
	// postponed are Services for whose change there was no memory; they are tried
	// again when trial is over, as postponedDue tells.
	postponed    map[model.ServiceName]struct{}
	postponedDue bool
	// starved is the Service port for which there was no memory when all was compared.
	starved model.ServicePortName
	// ownedLevel is how loud it is said that the tables are another process's.
	ownedLevel slog.Level
	// doubtful tells that others may have done something before the tables were ours.
	doubtful bool
	// suspect tells that the kernel refused a change that it should have taken.
	suspect bool
	// nodeAddrsTold is what was last told of addresses for node ports.
	nodeAddrsTold string
	// started tells that the first burst has come, due that there is something to
	// sync.
	started, due     bool
	ready            chan struct{}
	snapshotRequests chan func()   // what others have the loop's goroutine look at
	ended            chan struct{} // closed when there is none any more
}

// eventBuffer is how many bursts may wait while the kernel works. Then the source
// waits, too.
const eventBuffer = 64

// NewLoop makes a loop; nothing happens before Run.
func NewLoop(c Config, source Source, kernel Kernel, log *slog.Logger) *Loop {
	l := &Loop{
		source:           source,
		addresses:        c.Addresses,
		followers:        c.Followers,
		kernel:           kernel,
		observer:         c.Observer,
		recorder:         c.Recorder,
		notices:          notices{},
		log:              log,
		state:            newState(c),
		recovery:         newDelay(c.SyncPeriod),
		drift:            newDrift(c, kernel),
		refused:          refusals{},
		ownedLevel:       slog.LevelError,
		postponed:        map[model.ServiceName]struct{}{},
		trial:            newDelay(lastDelay),
		pause:            newPause(c.MinSyncPeriod),
		ready:            make(chan struct{}),
		snapshotRequests: make(chan func()),
		ended:            make(chan struct{}),
	}
	if l.observer == nil {
		l.observer = MultiObserver{}
	}
	if l.recorder == nil {
		l.recorder = nopRecorder{}
	}
	return l
}

// Ready is closed once the kernel has taken what the source first wanted, but
// for Service ports it refused.
func (l *Loop) Ready() <-chan struct{} { return l.ready }

// Run works until ctx ends, which is no error, or the source fails. What is
// programmed stays.
func (l *Loop) Run(ctx context.Context) error {
	events, addresses := make(chan []Event, eventBuffer), make(chan []netip.Addr)
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error { return l.source.Run(both, events) })
	if l.addresses != nil {
		group.Go(func() error { return l.addresses.Run(both, addresses) })
	}
	group.Go(func() error { return l.follow(both, events, addresses) })
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// follow is the loop itself. No delay runs before the first burst, and nothing is
// done before the node's addresses are known.
func (l *Loop) follow(ctx context.Context, events <-chan []Event, addresses <-chan []netip.Addr) error {
	defer close(l.ended)
	for known := l.addresses == nil; !known; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case list := <-addresses:
			l.state.setInterfaces(list)
			known = true
		case look := <-l.snapshotRequests:
			look()
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case burst := <-events:
			l.take(burst)
			l.drain(events)
			l.started = true
			l.due = true
		case list := <-addresses:
			l.state.setInterfaces(list)
			l.due = l.started
		case <-l.recovery.over():
			l.recovery.running = false
			l.due = true
		case <-l.trial.over():
			l.trial.running = false
			l.refused.tryAll()
			l.postponedDue = true
			l.due = true
		case <-l.pause.over():
			l.pause.running = false
		case <-l.drift.tick():
			l.drift.look(l.rules)
		case found := <-l.drift.found:
			l.judge(found)
		case look := <-l.snapshotRequests:
			look()
		}
		if l.due && !l.recovery.running && !l.pause.running {
			l.due = false
			if l.sync() {
				l.pause.begin()
			}
		}
	}
}

// drain takes in what waits already, so that it goes into the same batch. What
// comes meanwhile is for the next one: a source that never pauses must not keep
// the kernel waiting.
func (l *Loop) drain(events <-chan []Event) {
	for range len(events) {
		l.take(<-events)
	}
}

// take takes in a burst.
func (l *Loop) take(burst []Event) {
	var q QueuedChanges
	for _, e := range burst {
		switch e := e.(type) {
		case SetService, DeleteService:
			q.Services++
		case SetSlice, DeleteSlice:
			q.Slices++
		case SetNode:
			l.observer.Node(e)
		}
	}
	l.observer.Queued(q)
	l.state.apply(burst)
	l.state.problems.untold(l.tellProblem)
	l.state.warnings.untold(l.tellWarning)
}

// sync brings the kernel up to date, and reports whether it is. What does not
// work begins a delay.
func (l *Loop) sync() bool {
	start := time.Now()
	change, changes := l.state.take()
	if l.addresses != nil {
		l.tellNodeAddrs()
	}
	l.tellConflicts(changes.Conflicts)
	l.state.excesses.untold(func(o Object, text string) {
		l.tellProblem(l.service(model.ServiceName{Namespace: o.Namespace, Name: o.Name}), text)
	})
	l.untold.HealthChecks = append(l.untold.HealthChecks, changes.HealthChecks...)
	if l.state.rulesChanged {
		l.state.rulesChanged = false
		l.forget()
	}
	l.refused.tryChanged(change.Set)
	r, err := l.apply(change)
	for err != nil && l.rules != nil && l.isolate(err) {
		// The rules are what the kernel holds, with those parts of the change that it
		// has taken; what is in place already makes no difference.
		r, err = l.apply(change)
	}
	if err != nil {
		l.fallBack(err)
		l.observer.Synced(Result{Err: err, Took: time.Since(start)})
		return false
	}
	l.recovery.reset()
	l.full = nil
	l.announce()
	for _, name := range l.refused.acquit() {
		l.log.Info("Service port is no longer left out", "service", name)
	}
	if len(l.refused)+len(l.postponed) > 0 {
		l.trial.begin()
	} else {
		l.trial.reset()
	}
	l.observe(r, start)
	if l.doubtful {
		l.doubtful, l.suspect = false, true
		l.forget()
		l.recovery.beginAtOnce()
	}
	return true
}

// announce tells once that the first state stands.
func (l *Loop) announce() {
	select {
	case <-l.ready:
	default:
		close(l.ready)
		l.log.Info("ready", "services", l.state.services.Len(), "refused", len(l.refused))
	}
}

// apply makes the change, or everything anew if it is not known what the kernel
// holds.
func (l *Loop) apply(change nft.Change) (Result, error) {
	if l.rules == nil {
		return l.adopt()
	}
	return l.applyParts(l.admit(l.withTrials(l.withPostponed(change))))
}

// applyParts makes the change; in parts, each of whole Services, if one transaction
// would keep other programs from nf_tables for long, or the kernel has no memory for
// all at once.
func (l *Loop) applyParts(change nft.Change) (Result, error) {
	plan := l.rules.Plan(change)
	if plan.Batch.Counts().Cost() > nft.StepElements {
		if first, second, divided := halves(change, l.rules.ServiceAt); divided {
			return l.applyBoth(first, second)
		}
	}
	r, err := l.send(plan.Batch)
	if err == nil {
		l.commit(plan)
		l.report(r)
		l.tellFollowers(change, false)
		return r, nil
	}
	if !nft.IsOutOfMemory(err) || l.rules == nil { // the kernel may have some of it
		return r, err
	}
	first, second, divided := halves(change, l.rules.ServiceAt)
	if !divided {
		return r, l.postpone(change, err)
	}
	return l.applyBoth(first, second)
}

// applyBoth makes one change and then another.
func (l *Loop) applyBoth(first, second nft.Change) (Result, error) {
	r, err := l.applyParts(first)
	if err != nil {
		return r, err
	}
	more, err := l.applyParts(second)
	return r.and(more), err
}

// commit believes what the kernel has taken.
func (l *Loop) commit(p *nft.Plan) {
	l.rules.Commit(p)
	l.drift.changed()
}

// adopt compares what the kernel holds with what it should and sends the
// difference.
func (l *Loop) adopt() (Result, error) {
	foreign, err := l.kernel.ForeignChanges()
	if err != nil {
		return Result{}, fmt.Errorf("read the kernel: %w", err)
	}
	l.drift.adopting(foreign)
	have, err := l.kernel.Read()
	if err != nil {
		return Result{}, fmt.Errorf("read the kernel: %w", err)
	}
	if err := have.Writable(); err != nil {
		return Result{}, fmt.Errorf("%w: %w", errOwned, err)
	}
	for _, id := range l.full {
		have.MarkFull(id)
	}
	all := l.admit(l.state.all())
	rules, batch := nft.Adopt(l.state.config.Rules, have, all)
	r, err := l.send(batch)
	if err != nil {
		return r, err
	}
	l.rules, l.lastInstalled = rules, nil
	l.starved, l.ownedLevel = model.ServicePortName{}, slog.LevelError
	clear(l.postponed)
	l.drift.changed()
	// What others did between the reading and our taking possession nobody looks for.
	l.doubtful = l.state.config.Rules.Protect && have.Orphaned() && l.drift.disturbed()
	r.Full, r.Drift = true, l.suspect && len(batch) > 0
	l.suspect = false
	l.report(r)
	l.tellFollowers(all, true)
	return r, nil
}

// send applies a batch.
func (l *Loop) send(b nft.Batch) (Result, error) {
	if len(b) == 0 {
		return Result{}, nil
	}
	l.log.Debug("batch", "commands", b)
	applied, err := l.kernel.Apply(b)
	if err != nil && applied.Steps > 0 {
		l.forget() // steps that came before the one that was refused
	}
	if err != nil {
		return Result{}, fmt.Errorf("apply batch: %w", err)
	}
	return Result{Applied: applied, Counts: b.Counts()}, nil
}
