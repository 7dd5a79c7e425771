package sync

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync/throttle"
)

// Kernel is the access to nf_tables that the loop needs.
type Kernel interface {
	// Read returns our tables as the kernel holds them.
	Read() (nft.Tables, error)
	// Apply applies the batch whole or not at all. Of a large batch, which is divided
	// into steps, some may be applied; the result says how many. An error of type
	// *wire.Error is the kernel's refusal. After any other error the kernel's state is
	// unknown.
	Apply(nft.Batch) (nft.Applied, error)
	// ForeignChanges returns a number that changes whenever a process changes nf_tables,
	// except for those that the loop shares the kernel with.
	ForeignChanges() (uint32, error)
}

// A Loop keeps the kernel's tables in the state that the source describes. One goroutine
// owns all its state. See the package comment.
type Loop struct {
	config *Config // of desired
	source Source
	kernel Kernel
	report *reporter
	log    *slog.Logger

	desired *desiredState
	phase   phase
	// rules are what the kernel holds, nil if unknown. Then lastInstalled is what it last
	// held, for snapshots.
	rules         *nft.Ruleset
	lastInstalled *lastInstalled
	fullSets      []nft.SetID // sets that must be rebuilt because they are full
	quarantine    *quarantine
	drift         *drift
	processor     *processorShares
	// healthChecks changed, which the followers do not know yet.
	healthChecks []model.HealthCheck

	backoff                  wait.Backoff
	backoffTimer, pauseTimer *time.Timer

	ready    chan struct{} // closed after the first sync that succeeded
	requests chan func()   // functions for the loop's goroutine to call
	ended    chan struct{} // closed when it makes no more calls
}

// eventBuffer is how many bursts may wait while the kernel works. Then the source
// waits, too.
const eventBuffer = 64

// NewLoop returns a loop that does nothing before Run.
func NewLoop(c Config, source Source, kernel Kernel, log *slog.Logger) *Loop {
	if c.Observer == nil {
		c.Observer = MultiObserver{}
	}
	desired := newDesiredState(c)
	return &Loop{
		config:       &desired.config,
		source:       source,
		kernel:       kernel,
		report:       newReporter(c, desired.services, log),
		log:          log,
		desired:      desired,
		quarantine:   newQuarantine(),
		drift:        newDrift(c, kernel),
		processor:    &processorShares{cpuTime: c.CPUTime, paidOff: map[string]time.Time{}, timer: stoppedTimer()},
		backoff:      newBackoff(c.SyncPeriod),
		backoffTimer: stoppedTimer(),
		pauseTimer:   stoppedTimer(),
		ready:        make(chan struct{}),
		requests:     make(chan func()),
		ended:        make(chan struct{}),
	}
}

// Ready is closed after the first sync: the kernel has everything of the first burst
// but quarantined Service ports.
func (l *Loop) Ready() <-chan struct{} { return l.ready }

// Run works until ctx ends, which does not count as an error, or the source fails. The
// kernel's tables stay.
func (l *Loop) Run(ctx context.Context) error {
	events, addresses := make(chan []Event, eventBuffer), make(chan []netip.Prefix)
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error { return l.source.Run(both, events) })
	if l.config.Addresses != nil {
		group.Go(func() error { return l.config.Addresses.Run(both, addresses) })
	}
	group.Go(func() error { return l.run(both, events, addresses) })
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// Close makes requests for snapshots fail. It is called instead of Run.
func (l *Loop) Close() { close(l.ended) }

// run is the loop's goroutine. It takes no events before it knows the node's addresses.
func (l *Loop) run(ctx context.Context, events <-chan []Event, addresses <-chan []netip.Prefix) error {
	defer close(l.ended)
	waiting := events
	if l.config.Addresses != nil {
		events = nil
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case burst := <-events:
			l.handleEvents(burst)
			for range len(events) { // no later ones: a busy source must not delay the sync
				l.handleEvents(<-events)
			}
			l.signal(signalBurst)
		case list := <-addresses:
			events = waiting
			l.desired.setInterfaces(list)
			l.signal(signalChange)
		case overlays := <-l.config.Overlays:
			l.desired.services.SetOverlays(overlays)
			l.signal(signalChange)
		case <-l.quarantine.timer.C:
			l.quarantine.retryAll()
			l.signal(signalChange)
		case <-l.processor.timer.C:
			l.signal(signalChange)
		case <-l.backoffTimer.C:
			l.signal(signalBackoffOver)
		case <-l.pauseTimer.C:
			l.signal(signalPauseOver)
		case <-l.drift.tick():
			l.drift.startRead(l.rules)
		case found := <-l.drift.found:
			l.handleDrift(found)
		case request := <-l.requests:
			request()
		}
		if l.phase == phaseDue && l.sync() && l.config.MinSyncPeriod > 0 {
			l.pauseTimer.Reset(l.config.MinSyncPeriod)
			l.signal(signalPause)
		}
	}
}

func (l *Loop) signal(s signal) { l.phase = l.phase.on(s) }

// retryAfter makes the next sync wait.
func (l *Loop) retryAfter(d time.Duration) {
	l.backoffTimer.Reset(d)
	l.signal(signalBackoff)
}

func (l *Loop) handleEvents(burst []Event) {
	for _, e := range burst {
		if node, ok := e.(SetNode); ok {
			l.config.Observer.Node(node)
		}
	}
	l.config.Observer.Queued(l.desired.apply(burst))
	l.desired.problems.pending(l.report.unusable)
	l.desired.warnings.pending(l.report.openToAll)
}

// sync brings the kernel to the desired state, and reports whether it succeeded. If
// not, a backoff has begun.
func (l *Loop) sync() bool {
	start := time.Now()
	charge := l.processor.begin()
	change, changes := l.desired.take(l.processor.waits)
	if l.rules == nil {
		changes.Work = nil // everything is compared
	}
	defer charge(changes)
	if l.config.Addresses != nil {
		l.report.nodePortAddrs(l.desired)
	}
	l.report.serviceRanges(l.desired)
	l.report.conflicts(changes.Conflicts)
	l.desired.excesses.pending(func(o Object, text string) {
		l.report.unusable(l.report.service(model.ServiceName{Namespace: o.Namespace, Name: o.Name}), text)
	})
	l.healthChecks = append(l.healthChecks, changes.HealthChecks...)
	if l.desired.rulesChanged {
		l.desired.rulesChanged = false
		l.forgetRules()
	}
	l.quarantine.retryChanged(change.Set)
	r, err := l.apply(change)
	for err != nil && l.rules != nil && l.tryRecover(err) {
		// Parts of the change that the kernel has accepted make no difference to it now.
		r, err = l.apply(change)
	}
	if err != nil {
		l.handleFailure(err)
		l.config.Observer.Synced(Result{Err: err, Took: time.Since(start)})
		return false
	}
	l.backoff = newBackoff(l.config.SyncPeriod)
	l.fullSets = nil
	l.signal(signalSynced)
	if !l.isReady() {
		close(l.ready)
		l.log.Info("ready", "services", l.desired.services.Len(), "refused", len(l.quarantine.ports))
	}
	for _, port := range l.quarantine.release() {
		l.log.Info("released Service port", "service", port)
	}
	l.quarantine.schedule()
	r.Triggered = l.desired.takeTriggers()
	l.observe(r, start)
	if l.drift.mustCompareAgain(l.rules) {
		l.forgetRules()
		l.retryAfter(0)
	}
	return true
}

// forgetRules makes the next sync read the kernel. Snapshots show the last known state
// until then.
func (l *Loop) forgetRules() {
	if l.rules != nil {
		l.lastInstalled, l.rules = &lastInstalled{l.rules.Installed(), l.rules.NodeAddrs()}, nil
	}
}

// Config is the configuration of a [Loop].
type Config struct {
	NodeName string
	// Options are the cluster's. Their Budget and DetectsPods are set by the loop.
	model.Options
	Rules nft.Config
	// PodsFromNode takes Rules.Pods from the Node object and follows it (detect local mode
	// NodeCIDR).
	PodsFromNode bool

	// NodePorts selects the addresses that serve node ports, among those that Addresses
	// delivers. Without Addresses, node ports are not served.
	NodePorts NodePortAddresses
	Addresses AddressSource
	// NodeIPs override the primary addresses of the Node object, where they are valid.
	NodeIPs [len(model.Families)]netip.Addr

	// AnswerPings has addresses of Services answer echo requests, from an address of the node.
	AnswerPings bool

	// APIServer lists where this process reaches the API server, if it uses one.
	APIServer []netip.AddrPort

	// Overlays delivers what followers change of pools.
	Overlays chan []model.Overlay

	// CPUTime returns the processor time of the calling thread. With it, changes of a namespace
	// that take more than a tenth of one processor are postponed.
	CPUTime func() time.Duration

	Background *throttle.Budget // of all background work
	// DriftReader reads the kernel's tables to detect changes by other processes. Without
	// it, and if Rules.Protect is set, nothing is detected.
	DriftReader TableReader

	// SyncPeriod is the longest wait before a failed sync is retried; zero means 30 s.
	SyncPeriod time.Duration
	// MinSyncPeriod is the time between two syncs, at least. Changes meanwhile go into one
	// batch. Zero means none.
	MinSyncPeriod time.Duration
	// Observer, Recorder and Followers are notified of what happens. Observer and Recorder
	// may be nil.
	Observer  Observer
	Recorder  Recorder
	Followers []Follower
}

// Budget limits what authors of Services can make every node hold. An element takes
// about 143 bytes of kernel memory; the largest known cluster has 250,000 endpoints.
// docs/security.md and docs/limits.md name these limits.
var Budget = model.Budget{PerNamespace: 1_000_000, Total: 4_000_000}

// options returns the part of the configuration that the model needs.
func (c *Config) options() model.Options {
	o := c.Options
	o.Budget = Budget
	for _, f := range model.Families {
		o.DetectsPods[f] = c.Rules.DetectsPods(f)
	}
	return o
}
