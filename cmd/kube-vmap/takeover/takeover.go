// Package takeover replaces kube-proxy on a node in a way that can be undone. kube-proxy's
// rules are suspended in the transaction that adds ours, and removed only after a
// probation in which kube-vmap has proved to work here.
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
// # Another proxy
//
// Nothing of a proxy that runs is touched. A proxy runs if another process listens on a
// proxy's ports, or if a process named kube-proxy runs in the same network namespace. Of
// processes of the host a container sees only the ports. A kube-proxy with other ports and in
// another PID namespace is noticed only when it writes: in iptables mode each sync
// resumes its rules, and in nftables mode chains come and go with Services and endpoints.
// Then its rules are resumed and stay, beside ours.
//
// # Checks
//
// Immediately, and every 5 seconds of the probation: no check packet (package pathcheck) is lost that
// kube-proxy's rules would deliver. Every 5 seconds: changes reach the kernel in time; it refuses
// few Service ports; and a sample of ClusterIPs that the node could connect to before the
// first commit still answers. kube-proxy's rules and the loop's state, which take longer to
// read in a larger cluster, are read less often. Something that one author of Services can
// cause never fails a check (see blamesRules).
//
// A process that ends again and again before its first sync checks nothing, so starts are
// counted (see state.go).
//
// # Returned
//
// A process that has returned the node, or is started on it later, changes nothing. It reports
// the reason and what kube-proxy does, until the stored state is removed (see returned.go).
//
// # State
//
// The end of the probation with the number of starts, or that the node was returned, is stored as the comment of a
// table in the kernel. Like kube-proxy's rules it survives a restart, but not a reboot.
package takeover

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	stdsync "sync"
	"sync/atomic"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/nft"
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
	// Ports are those of a Service proxy's servers.
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

// Takeover is a task that takes the place of kube-proxy.
type Takeover struct {
	Config
	system  system
	dial    dialFunc
	observe func(context.Context, netip.AddrPort) observation

	// until is the end of the probation, zero before it. resumed is whether an earlier
	// process has begun it. sample is what worked before.
	until   time.Time
	resumed bool
	sample  []target
	changes changes // of the sample
	// direct are the endpoints of the sample to which the node could connect itself before the
	// first commit.
	direct map[netip.AddrPort]bool
	// starts is how many starts in a row are stored as not having reached the first sync,
	// with this one; zero after it.
	starts int
	// removing is whether the removal of kube-proxy's rules has begun. If it could not be
	// completed, the rest is no rule set to which the node could be returned.
	removing bool
	// awakeUntil is how long another proxy counts as running after its rules were found awake.
	awakeUntil time.Time
	// seen is whether the other proxy was last seen as a process or by its ports, so that its
	// end is seen, too.
	seen bool
	// first decides which goroutine uses the fields above: the loop's for its first batch, and
	// Run's after the first sync.
	first turn
	// failed are the addresses that did not answer in the last check.
	failed []failure

	state atomic.Pointer[publicState]
}

// A turn is the time in which one goroutine may use what another one uses after it.
type turn struct {
	mu    stdsync.Mutex
	ended bool
}

// try calls f unless the turn has ended, and reports whether it did. The success of f ends it.
func (t *turn) try(f func() error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	t.ended = f() == nil
	return true
}

// end ends the turn, if necessary once f has returned.
func (t *turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// publicState is the state for people and metrics.
type publicState struct {
	name     string
	notReady string // why kube-vmap is not the node's only proxy; empty if it is
	problem  string // empty if there is none
}

// The states, as the metric names them.
const (
	StateStarting   = nodestatus.TakeoverStarting
	StateOtherProxy = nodestatus.TakeoverOtherProxy
	StateProbation  = nodestatus.TakeoverProbation
	StateDone       = nodestatus.TakeoverDone
	StateReturned   = nodestatus.TakeoverReturned
)

// States are all states of a running take-over.
var States = []string{StateStarting, StateOtherProxy, StateProbation, StateDone, StateReturned}

// New returns a takeover.
func New(c Config) *Takeover {
	t := &Takeover{Config: c, system: &node{Config: c}, dial: connect, observe: observe}
	t.publish(StateStarting, "", "")
	return t
}

// Run takes over from kube-proxy, as far as the first commit has not done it, and returns
// when ctx has ended, or a [FailedError] if the node must be returned. Other errors are logged
// and the step is tried again: they are no reason to end the proxy.
func (t *Takeover) Run(ctx context.Context, p Proxy) error {
	if failure := t.awaitReady(ctx, p); failure != nil {
		return failure
	}
	t.first.end()
	if t.starts > 0 && ctx.Err() == nil {
		t.storeStarts(0)
	}
	for ctx.Err() == nil && waitUntilAlone(ctx, t.findOther) {
		passed, failure := t.probation(ctx, p)
		switch {
		case failure != nil:
			return failure
		case !passed || ctx.Err() != nil || t.findOther(): // it may have started meanwhile
			continue
		}
		if t.finish() {
			t.watch(ctx)
		} else {
			sync.Sleep(ctx, retryPeriod)
		}
	}
	return nil
}

// finish removes what kube-proxy left, and reports whether it could.
func (t *Takeover) finish() bool {
	var removed []string
	r, err := t.system.find()
	if err == nil {
		t.Marker.NFTables = t.Marker.NFTables || r.nft.HasTables() // Calico may come later
		t.removing = true
		removed, err = t.system.remove(t.Marker.wanted(r))
	}
	if len(removed) > 0 {
		t.Log.Info("removed what kube-proxy left", "removed", strings.Join(removed, ", "))
	}
	if err != nil {
		t.Log.Error("cannot remove everything that kube-proxy left, retrying", "retry_in", retryPeriod.String(), "err", err)
		return false
	}
	t.until, t.resumed, t.removing = time.Time{}, false, false
	t.setSample(nil)
	t.publish(StateDone, "", "")
	return true
}

// Problems returns the problem that another proxy seems to run, that the probation has not ended,
// or that the node was returned.
func (t *Takeover) Problems() []sync.Problem {
	if s := t.state.Load(); s.problem != "" {
		return []sync.Problem{{Object: t.node(), Reason: reasons[s.name], Text: s.problem}}
	}
	return nil
}

// reasons are those of problems and events, by state.
var reasons = map[string]string{
	StateOtherProxy: nodestatus.ReasonOtherProxy, StateProbation: nodestatus.ReasonProbation,
	StateReturned: nodestatus.ReasonReturned,
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
