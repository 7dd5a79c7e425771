// Package flows deletes stale entries of connection tracking. A flow keeps the endpoint
// that was chosen for its first packet for as long as packets arrive, even if the
// endpoint was removed. TCP and SCTP then time out or are reset and connect again, but a
// UDP sender that expects no reply would send to a removed endpoint forever.
//
//	sync.Loop --Follow: commits--> queue
//	                                 | Run applies them; unfinished work stays pending
//	                                 v
//	   entry: original destination, reply source --> stale? --no--> kept
//	                                                   |
//	                                                  yes --> deleted
//
// An entry is stale if its original destination is a frontend whose endpoints have changed, and its
// reply source is not one of the frontend's [model.Pool] FlowEndpoints: an endpoint that was removed or
// has another port, or the service address itself, where the flow began before the rules existed, or
// its first packet was between two hooks when the first endpoint was added.
// If a frontend was removed or has no endpoint, all its entries are stale; the sender's next
// packet is then rejected. TCP and SCTP entries are only stale, unless TCP should end, if no
// endpoint could reply: the flow began at a load balancer's address before the rules existed. Those
// without a reply are also stale if the Service holds connections, or retries them, and their
// endpoint does not serve: the client's next packet reaches another one, or waits.
// Other entries are not touched: neither entries of the same port at an address that is not ours,
// nor flows from a service address. A stale entry is deleted a second after the change, when replies to
// earlier packets have arrived.
//
// Stale entries are checked again, with the latest commits, before they are deleted: an
// endpoint may have been added meanwhile.
package flows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
	"kube-vmap/sync/throttle"
)

// Kernel is the kernel's connection tracking.
type Kernel interface {
	// List returns the entries of the query that want selects.
	List(q conntrack.Query, want func(conntrack.Entry) bool) ([]conntrack.Entry, error)
	// Delete deletes entries. It returns how many existed, also with an error.
	Delete([]conntrack.Entry) (int, error)
}

// Config configures [Flows].
type Config struct {
	// EndTCP also deletes TCP flows to endpoints that are not in their pool's
	// FlowEndpoints, which must be filled for TCP. Without it they may drain.
	EndTCP bool
	// Reconciled is called each time all stale flows of a family are deleted: how many since the
	// last time, and how long it took. It is called on Run's goroutine.
	Reconciled func(f model.Family, deleted int, took time.Duration)
	Background *throttle.Budget // of all background work
}

// Flows is a [sync.Follower] that deletes stale flows.
type Flows struct {
	Config
	*follow.Queue
	kernel Kernel
	log    *slog.Logger

	// The following belongs to Run's goroutine.
	tracker  tracker
	deleted  [len(model.Families)]int // not reported yet
	readPace readPace
}

// New returns Flows; they do nothing before Run.
func New(c Config, kernel Kernel, log *slog.Logger) *Flows {
	protocols := []model.Protocol{model.UDP}
	if c.EndTCP {
		protocols = append(protocols, model.TCP)
	}
	return &Flows{
		Config: c, Queue: follow.NewQueue(),
		kernel: kernel, log: log, tracker: newTracker(protocols), readPace: newReadPace(c.Background),
	}
}

func (f *Flows) applyCommits() {
	for _, t := range f.Take() {
		f.tracker.apply(t)
	}
}

const (
	// firstBackoff and maxBackoff are the delays between failed attempts.
	firstBackoff, maxBackoff = time.Second, 30 * time.Second
	// deletionDelay is how long after the removal of its endpoint a flow is deleted at least, and
	// so the shortest pause: replies to earlier packets then arrive, which without the flow would
	// seem to come from a stranger.
	deletionDelay = time.Second
)

// A readPace delays the next read of the kernel's table, after which flows are deleted.
type readPace struct {
	timer   *time.Timer // fires when it is over
	pace    throttle.Throttle
	backoff wait.Backoff
	failing bool // the last attempt failed
	running bool // cleared by the owner when the pause is over
}

func newReadPace(background *throttle.Budget) readPace {
	p := readPace{timer: time.NewTimer(maxBackoff), pace: background.Throttle(deletionDelay)}
	p.timer.Stop()
	return p
}

// begin starts a pause of at least this length after an attempt.
func (p *readPace) begin(failed bool, length time.Duration) {
	if failed && !p.failing {
		p.backoff = sync.NewBackoff(firstBackoff, maxBackoff, 0.1)
	}
	if failed {
		length = max(length, p.backoff.Step())
	}
	p.failing, p.running = failed, true
	p.timer.Reset(length)
}

// Run deletes stale flows until ctx ends, which is not an error. It retries failures with backoff.
func (f *Flows) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.Ready():
		case <-f.readPace.timer.C:
			f.readPace.running = false
			if f.tracker.hasPending() {
				failed := false
				length := f.readPace.pace.Do(func() { failed = f.reconcile() })
				f.readPace.begin(failed, length)
			}
		}
		if f.readPace.running {
			continue // commits wait in their queue
		}
		if f.applyCommits(); f.tracker.hasPending() {
			f.readPace.begin(false, f.readPace.pace.Pause(0))
		}
	}
}

// staleFlows are the flows of a family that were stale before the latest commits.
type staleFlows struct {
	checks  pendingChecks
	queried bool
	entries []conntrack.Entry
	took    time.Duration
	err     error
}

// reconcile does the pending checks of each family independently. Both families are read
// before commits that arrived meanwhile are applied. Such a commit deletes no flow yet: it
// has its own time for replies. But flows that are valid again stay.
func (f *Flows) reconcile() (failed bool) {
	var found [len(model.Families)]staleFlows
	for _, family := range model.Families {
		found[family] = f.find(family)
	}
	f.applyCommits()
	var errs []error
	for _, family := range model.Families {
		if err := f.deleteStale(family, &found[family]); err != nil {
			errs = append(errs, err)
		}
	}
	first := !f.readPace.failing
	failed = len(errs) > 0
	switch {
	case failed && first:
		f.log.Warn("stale flows not deleted, retrying", "err", errors.Join(errs...))
	case !failed && !first:
		f.log.Info("stale flows deleted again")
	}
	return failed
}

func (f *Flows) find(family model.Family) (s staleFlows) {
	start := time.Now()
	s.checks = f.tracker.takePending(family)
	for _, q := range f.tracker.queries(family, s.checks) {
		s.queried = true
		entries, err := f.kernel.List(q, func(e conntrack.Entry) bool { return f.tracker.isStale(e, s.checks) })
		if err != nil {
			s.err = err
			break
		}
		s.entries = append(s.entries, entries...)
	}
	s.took = time.Since(start)
	return s
}

// deleteStale deletes the flows that are still stale.
func (f *Flows) deleteStale(family model.Family, s *staleFlows) error {
	if !s.queried {
		return nil
	}
	start := time.Now()
	s.entries = slices.DeleteFunc(s.entries, func(e conntrack.Entry) bool { return !f.tracker.isStale(e, s.checks) })
	n, err := 0, s.err
	if len(s.entries) > 0 {
		var failed error
		n, failed = f.kernel.Delete(s.entries)
		err = errors.Join(err, failed)
	}
	f.deleted[family] += n
	if err != nil {
		f.tracker.putBack(family, s.checks)
		return fmt.Errorf("delete stale flows: %w", err)
	}
	took := s.took + time.Since(start)
	f.log.Debug("stale flows deleted", "family", family, "flows", f.deleted[family], "took", took)
	f.Reconciled(family, f.deleted[family], took)
	f.deleted[family] = 0
	return nil
}
