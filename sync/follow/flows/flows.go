package flows

import (
	"log/slog"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
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
