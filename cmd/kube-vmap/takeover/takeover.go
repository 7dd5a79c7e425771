// Package takeover replaces kube-proxy on a node in a way that can be undone. kube-proxy's
// rules are suspended in the transaction that adds ours, and removed only after a
// probation in which kube-vmap has proved to work here. The table of this is steps:
//
//	start --returned before--> returned: stay, report it
//	  |
//	  v                          another proxy runs
//	first commit -------------------------------------> other-proxy
//	  | suspends kube-proxy's rules                      |  look again every 5 seconds
//	  v                          its rules are awake     v
//	probation <----------------------------------------> alone: suspend them
//	  |       \
//	  |        `--fails 3 checks in a row--> kube-proxy's rules resumed, ours deleted,
//	  v                                      in one transaction; returned
//	done: kube-proxy's rules removed
//
// docs/usage.md has the signs of another proxy and the checks of the probation. A kube-proxy that only
// its rules show is noticed when it writes: in iptables mode each sync resumes its rules, and in
// nftables mode chains come and go with Services and endpoints. Then its rules are resumed and stay,
// after ours. What one author of Services can cause never fails a check (see blamesRules). A process
// that ends again and again before its first sync checks nothing, so starts are counted.
//
// The end of the probation with the number of starts, or that the node was returned, is stored as the
// comment of a table in the kernel. Like kube-proxy's rules it survives a restart, but not a reboot.
package takeover

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	stdsync "sync"
	"sync/atomic"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
	"kube-vmap/sync"
)

const (
	// retryPeriod is the wait after a removal that failed.
	retryPeriod = 5 * time.Minute
	// pollPeriod is how often to look for another proxy, and to check in the probation. It
	// is the period in which our servers retry their ports.
	pollPeriod = 5 * time.Second
	// markerPeriod is how often to look whether the marker is wanted.
	markerPeriod = time.Minute
)

// Config is what a [Takeover] needs.
type Config struct {
	NodeName string
	// Ports are the ports of a Service proxy's servers.
	Ports []uint16
	// ExcludeCIDRs are ranges whose IPVS virtual servers are not kube-proxy's, from the
	// configuration's ExcludeCIDRs.
	ExcludeCIDRs []netip.Prefix
	// Probation is how long kube-proxy's rules stay suspended; zero removes them immediately.
	Probation time.Duration
	// Marker selects the nodes with the marker; see [Marker].
	Marker Marker
	// Kernel commits changes. It is used on the goroutine of Run.
	Kernel   Kernel
	Recorder sync.Recorder // nil sends no events
	Log      *slog.Logger
}

// A Kernel commits batches to nf_tables.
type Kernel interface {
	Apply(nft.Batch) (nft.Applied, error)
}

// A Proxy is the part of the running proxy that a take-over watches.
type Proxy struct {
	// Ready is closed after the first sync.
	Ready <-chan struct{}
	// Snapshot returns what the loop knows.
	Snapshot func(context.Context) (sync.Snapshot, error)
	// Healthy reports whether changes reach the kernel in time.
	Healthy func() bool
}

// Takeover is a task that takes the place of kube-proxy. Each phase uses it on the goroutine of Run,
// except for the first batch of the loop.
type Takeover struct {
	Config
	system  system
	dial    dialFunc
	observe func(context.Context, netip.AddrPort) observation

	// mu is locked while the phase changes, and while the loop commits its first batch, which is
	// on its own goroutine and before phaseLooking.
	mu     stdsync.Mutex
	phase  phase
	stored storedState // in the kernel, if kube-proxy's rules are suspended
	// sample is what worked before, and direct are its endpoints to which the node could connect
	// itself before the first commit.
	sample  []target
	direct  map[netip.AddrPort]bool
	changes changes // of the sample
	// awakeUntil is how long another proxy counts as running that only its rules show.
	awakeUntil time.Time

	state atomic.Pointer[publicState]
}

// publicState is the state for people and metrics.
type publicState struct {
	name     string
	notReady string // why kube-vmap is not the node's only proxy; empty if it is
	problem  string // empty if there is none
}

// States are all states of a running take-over, as the metric names them.
var States = []string{
	nodestatus.TakeoverStarting, nodestatus.TakeoverOtherProxy, nodestatus.TakeoverProbation, nodestatus.TakeoverDone,
	nodestatus.TakeoverReturned,
}

// New returns a takeover.
func New(c Config) *Takeover {
	t := &Takeover{Config: c, system: &node{Config: c}, dial: connect, observe: observe}
	t.publish(nodestatus.TakeoverStarting, "", "")
	if model.ProxyName() != "" {
		t.phase = phaseIdle
		t.publish(nodestatus.TakeoverDone, "", "")
	}
	return t
}

// Run takes over from kube-proxy, as far as the first commit has not done it, and returns
// when ctx has ended, or a [FailedError] if the node must be returned. Other errors are logged
// and the step is tried again: they are no reason to end the proxy.
func (t *Takeover) Run(ctx context.Context, p Proxy) error {
	now := t.on(signalNone)
	for ctx.Err() == nil {
		s, failure := steps[now].do(t, ctx, p)
		if now = t.on(s); now == phaseReturned {
			return failure
		}
	}
	return nil
}

func (t *Takeover) on(s signal) phase {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase = t.phase.on(s)
	return t.phase
}

// retry returns after a wait that what failed must be tried again.
func (t *Takeover) retry(ctx context.Context, in time.Duration, err error) (signal, error) {
	t.Log.Error("take-over from kube-proxy interrupted, retrying", "retry_in", in.String(), "err", err)
	sync.Sleep(ctx, in)
	return signalRetry, nil
}

// Problems returns the problem that another proxy seems to run, that the probation has not ended,
// or that the node was returned.
func (t *Takeover) Problems() []sync.Problem {
	if s := t.state.Load(); s.problem != "" {
		return []sync.Problem{{Object: t.node(), Reason: reasons[s.name], Text: s.problem}}
	}
	return nil
}

// reasons are the reasons of problems and events, by state.
var reasons = map[string]string{
	nodestatus.TakeoverOtherProxy: nodestatus.ReasonOtherProxy, nodestatus.TakeoverProbation: nodestatus.ReasonProbation,
	nodestatus.TakeoverReturned: nodestatus.ReasonReturned,
}

// NotReady returns why kube-vmap is not the node's only proxy, for probes; empty if it is. The
// problem may name Services, addresses and rules, which not everyone who can ask probes may know.
func (t *Takeover) NotReady() string { return t.state.Load().notReady }

// State returns one of [States].
func (t *Takeover) State() string { return t.state.Load().name }

// publish sets the state and reports whether it is new.
func (t *Takeover) publish(name, notReady, problem string) bool {
	now := publicState{name, notReady, problem}
	before := t.state.Swap(&now)
	return before == nil || *before != now
}

func (t *Takeover) node() sync.Object { return sync.Object{Kind: "Node", Name: t.NodeName} }

// phase is what a [Takeover] does until a signal, which moves it to the next phase as steps
// defines. What else it remembers is the same in all phases.
type phase uint8

const (
	phaseStarting    phase = iota // waits for the first sync; nothing is suspended yet
	phaseResuming                 // waits, too; an earlier process has begun the probation
	phaseCommitted                // waits, too; the loop's first batch is in effect
	phaseLooking                  // looks for another proxy
	phaseOther                    // another proxy runs
	phaseOtherEnding              // it was not found once, and may only be restarting
	phaseSuspending
	phaseProbation
	phaseRemoving
	phaseDone
	phaseReturned // to kube-proxy
	phaseIdle     // has a name of its own, and takes over nothing
)

type signal uint8

const (
	signalNone      signal = iota // ctx has ended
	signalCommitted               // the loop's first batch is in effect
	signalReady                   // the first sync is done
	signalOther                   // another proxy runs
	signalAlone                   // no other proxy runs
	signalSuspended               // kube-proxy's rules are suspended
	signalNothing                 // no probation: there are no rules, or their removal has begun
	signalPassed                  // the probation has ended
	signalRemoved                 // kube-proxy's rules are removed
	signalRetry                   // something could not be read or written
	signalFailed                  // the node must be returned
)

var steps = map[phase]struct {
	do   func(*Takeover, context.Context, Proxy) (signal, error) // the error is the reason of signalFailed
	next map[signal]phase
}{
	phaseStarting: {(*Takeover).awaitSync, map[signal]phase{
		signalCommitted: phaseCommitted, signalReady: phaseLooking,
	}},
	phaseResuming: {(*Takeover).awaitSync, map[signal]phase{
		signalCommitted: phaseCommitted, signalReady: phaseLooking, signalFailed: phaseReturned,
	}},
	phaseCommitted:   {(*Takeover).awaitSync, map[signal]phase{signalReady: phaseLooking}},
	phaseLooking:     {(*Takeover).look, map[signal]phase{signalOther: phaseOther, signalAlone: phaseSuspending}},
	phaseOther:       {(*Takeover).lookAgain, map[signal]phase{signalAlone: phaseOtherEnding}},
	phaseOtherEnding: {(*Takeover).lookAgain, map[signal]phase{signalOther: phaseOther, signalAlone: phaseSuspending}},
	phaseSuspending: {(*Takeover).suspend, map[signal]phase{
		signalSuspended: phaseProbation, signalNothing: phaseRemoving, signalRetry: phaseLooking,
	}},
	phaseProbation: {(*Takeover).check, map[signal]phase{
		signalOther: phaseOther, signalPassed: phaseRemoving, signalRetry: phaseLooking, signalFailed: phaseReturned,
	}},
	phaseRemoving: {(*Takeover).remove, map[signal]phase{
		signalOther: phaseOther, signalRemoved: phaseDone, signalRetry: phaseLooking,
	}},
	phaseDone: {(*Takeover).watch, map[signal]phase{signalOther: phaseOther}},
	phaseIdle: {(*Takeover).idle, nil},
}

func (*Takeover) idle(ctx context.Context, _ Proxy) (signal, error) {
	<-ctx.Done()
	return signalNone, nil
}

// on returns the phase after a signal. A signal without a transition changes nothing.
func (p phase) on(s signal) phase {
	if next, ok := steps[p].next[s]; ok {
		return next
	}
	return p
}

// LoopKernel returns the kernel for the loop: in its first batch it also suspends kube-proxy's
// rules, unless another proxy runs.
func (t *Takeover) LoopKernel(ctx context.Context, k sync.Kernel) sync.Kernel {
	return &firstCommit{Kernel: k, ctx: ctx, takeover: t}
}

type firstCommit struct {
	sync.Kernel
	ctx      context.Context //nolint:containedctx // of the process; sync.Kernel has none
	takeover *Takeover
}

// Apply implements [sync.Kernel]. If kube-proxy's rules cannot be suspended in this batch, Run
// suspends them later.
func (k *firstCommit) Apply(b nft.Batch) (a nft.Applied, err error) {
	t := k.takeover
	t.changes.add(b)
	t.mu.Lock()
	if t.phase >= phaseCommitted {
		t.mu.Unlock()
		return k.Kernel.Apply(b)
	}
	defer t.mu.Unlock()
	r, suspend := t.firstSteps(k.ctx, b)
	a, err = k.Kernel.Apply(slices.Concat(b, suspend))
	if _, theirs := refusedOp(err).(nft.ForeignChange); theirs {
		t.Log.Warn("cannot suspend kube-proxy's rules together with the first commit, trying afterwards", "err", err)
		steps := a.Steps
		a, err = k.Kernel.Apply(b)
		a.Steps += steps
	} else if err == nil && len(suspend) > 0 {
		t.logSuspended(r)
	}
	if err == nil {
		t.phase = t.phase.on(signalCommitted)
	}
	return a, err
}

// firstSteps returns kube-proxy's rules and the changes that suspend them. There are none if
// another proxy runs, or if nothing can be suspended. It takes the sample while kube-proxy's
// rules are in effect. That makes the loop wait for at most twice connectTimeout, in which those
// rules serve.
func (t *Takeover) firstSteps(ctx context.Context, b nft.Batch) (rules, nft.Batch) {
	if t.Probation == 0 || t.findOther() {
		return rules{}, nil
	}
	r, err := t.system.find()
	if err != nil {
		t.Log.Warn("cannot read kube-proxy's rules", "err", err)
		return r, nil
	}
	if len(r.nft.Awake()) == 0 {
		return r, nil
	}
	if len(t.sample) == 0 {
		t.sample = t.working(ctx, batchTargets(b))
		t.direct = t.answering(ctx, batchEndpoints(b, t.sample))
	}
	t.stored.removing = false // a kube-proxy has run since
	t.setEnd(r)
	return r, suspension(r, t.stored)
}

// refusedOp returns the change that the kernel refused; nil if err is something else.
func refusedOp(err error) nft.Op {
	var refusal *wire.Error
	if errors.As(err, &refusal) {
		return refusal.Op
	}
	return nil
}
