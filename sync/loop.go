package sync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// Kernel is what the loop needs of the kernel.
type Kernel interface {
	// Read returns what the kernel holds under our name.
	Read() (nft.Tables, error)
	// Apply makes the kernel take the batch whole or not at all; of a first load in
	// steps it may take some. An error of type *nft.Error is the kernel's refusal;
	// after any other error it is not known what the kernel holds.
	Apply(nft.Batch) (nft.Applied, error)
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
// A planned change that is refused is no proof against the Service it names:
// somebody else may have changed our tables. So the kernel is read first, and
// only what it refuses on top of what was just read is set aside.
type Loop struct {
	source    Source
	kernel    Kernel
	addresses Addresses
	observer  Observer
	recorder  Recorder
	followers []Follower
	// untold is what followers have still to be told.
	untold Taken
	log    *slog.Logger

	state *state
	// rules is what the kernel holds; nil when that is not known, at the start
	// and after an error.
	rules    *nft.Ruleset
	recovery *delay // runs while the kernel is left alone after an error
	refused  refusals
	trial    *delay // runs until Service ports that are left out are tried again
	pause    *pause // runs while the kernel is left alone after a batch
	// suspect tells that the kernel refused a change that it should have taken.
	suspect bool
	// nodeAddrsTold is what was last told of addresses for node ports.
	nodeAddrsTold string
	// started tells that the first burst has come, due that there is something to
	// sync.
	started, due bool
	ready        chan struct{}
}

// queued is how many bursts may wait while the kernel works. Then the source
// waits, too.
const queued = 64

// NewLoop makes a loop; nothing happens before Run.
func NewLoop(c Config, source Source, kernel Kernel, log *slog.Logger) *Loop {
	l := &Loop{
		source:    source,
		addresses: c.Addresses,
		followers: c.Followers,
		kernel:    kernel,
		observer:  c.Observer,
		recorder:  c.Recorder,
		log:       log,
		state:     newState(c),
		recovery:  newDelay(c.SyncPeriod),
		refused:   refusals{},
		trial:     newDelay(lastDelay),
		pause:     newPause(c.MinSyncPeriod),
		ready:     make(chan struct{}),
	}
	if l.observer == nil {
		l.observer = Observers{}
	}
	if l.recorder == nil {
		l.recorder = unheard{}
	}
	return l
}

// Ready is closed once the kernel has taken what the source first wanted, but
// for Service ports it refused.
func (l *Loop) Ready() <-chan struct{} { return l.ready }

// Run works until ctx ends, which is no error, or the source fails. What is
// programmed stays.
func (l *Loop) Run(ctx context.Context) error {
	events, addresses := make(chan []Event, queued), make(chan []netip.Addr)
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
	if l.addresses != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case list := <-addresses:
			l.state.setInterfaces(list)
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
			l.due = true
		case <-l.pause.over():
			l.pause.running = false
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
	var q Queued
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
	if l.addresses != nil {
		l.tellNodeAddrs()
	}
	change, changes := l.state.take()
	for _, c := range changes.Conflicts {
		l.tellConflict(c)
	}
	l.untold.HealthChecks = append(l.untold.HealthChecks, changes.HealthChecks...)
	if l.state.rulesChanged {
		l.state.rulesChanged = false
		l.rules = nil
	}
	l.refused.tryChanged(change.Set)
	r, err := l.apply(change)
	for err != nil && l.rules != nil && l.setAside(err, l.refused.onTrial) {
		// Nothing was applied, so the rules are still what the kernel holds.
		r, err = l.apply(change)
	}
	if err != nil {
		l.fallBack(err)
		l.observer.Synced(Report{Err: err, Took: time.Since(start)})
		return false
	}
	l.recovery.reset()
	l.announce()
	for _, name := range l.refused.acquit() {
		l.log.Info("Service port is no longer left out", "service", name)
	}
	if len(l.refused) > 0 {
		l.trial.begin()
	} else {
		l.trial.reset()
	}
	l.observe(r, start)
	return true
}

// fallBack gives up what is believed of the kernel, which the next sync reads
// then: at once if the error says what to do differently, else after a while.
func (l *Loop) fallBack(err error) {
	var refusal *nft.Error
	planned := l.rules != nil
	l.rules = nil
	switch {
	case planned && errors.As(err, &refusal):
		l.log.Warn("a change was refused, reading the kernel", "err", err)
		// What is not there, or is there already, is not what we left.
		l.suspect = errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist)
		l.recovery.beginAtOnce()
	case l.setAside(err, l.refused.notOut):
		l.recovery.beginAtOnce()
	default:
		l.log.Error("the kernel was not brought up to date", "err", err)
		l.recovery.begin()
	}
}

// setAside leaves out the Service port that the kernel refused, so that the
// others can go on. False if the error is about none, or one that may not be.
func (l *Loop) setAside(err error, may func(name string) bool) bool {
	var refusal *nft.Error
	if !errors.As(err, &refusal) || refusal.Service == "" || refusal.Temporary() || !may(refusal.Service) {
		return false
	}
	l.suspect = false // it was the Service port, not somebody else
	level := slog.LevelDebug
	if l.refused.convict(refusal.Service, refusal.Errno) {
		level = slog.LevelError
		l.trial.reset()
		l.recorder.Warn(l.serviceOf(refusal.Service), ReasonRefused, err.Error())
	}
	l.log.Log(context.Background(), level, "Service port is left out", "service", refusal.Service, "err", err)
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
func (l *Loop) apply(change nft.Change) (Report, error) {
	if l.rules == nil {
		return l.adopt()
	}
	change = l.admit(l.withTrials(change))
	plan := l.rules.Plan(change)
	r, err := l.send(plan.Batch)
	if err == nil {
		l.rules.Commit(plan)
		l.report(r)
		l.tellFollowers(change, false)
	}
	return r, err
}

// adopt compares what the kernel holds with what it should and sends the
// difference.
func (l *Loop) adopt() (Report, error) {
	have, err := l.kernel.Read()
	if err != nil {
		return Report{}, fmt.Errorf("read the kernel: %w", err)
	}
	all := l.admit(l.state.all())
	rules, batch := nft.Adopt(l.state.config.Rules, have, all)
	r, err := l.send(batch)
	if err != nil {
		return r, err
	}
	l.rules = rules
	r.Whole, r.Drift = true, l.suspect
	l.suspect = false
	l.report(r)
	l.tellFollowers(all, true)
	return r, nil
}

// withTrials adds to the change everything of the Service ports on trial: what
// did not change of them is not programmed either.
func (l *Loop) withTrials(c nft.Change) nft.Change {
	if !l.refused.anyOnTrial() {
		return c
	}
	onTrial := func(f model.Frontend) bool { return l.refused.onTrial(f.Service.String()) }
	rest := slices.DeleteFunc(slices.Clone(c.Set), onTrial)
	c.Set = append(rest, l.state.frontends(onTrial)...)
	return c
}

// admit turns frontends of Service ports that are left out into ones that are
// gone.
func (l *Loop) admit(c nft.Change) nft.Change {
	if len(l.refused) == 0 {
		return c
	}
	admitted := nft.Change{Gone: slices.Clip(c.Gone), ServiceCIDRs: c.ServiceCIDRs, NodeAddrs: c.NodeAddrs}
	for _, f := range c.Set {
		if l.refused.out(f.Service.String()) {
			admitted.Gone = append(admitted.Gone, f.Match)
		} else {
			admitted.Set = append(admitted.Set, f)
		}
	}
	return admitted
}

// send applies a batch.
func (l *Loop) send(b nft.Batch) (Report, error) {
	if len(b) == 0 {
		return Report{}, nil
	}
	l.log.Debug("batch", "commands", b)
	applied, err := l.kernel.Apply(b)
	if err != nil {
		return Report{}, fmt.Errorf("apply batch: %w", err)
	}
	return Report{Applied: applied, Counts: b.Counts()}, nil
}
