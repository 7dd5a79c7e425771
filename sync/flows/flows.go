package flows

import (
	"log/slog"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
)

// Kernel is what is needed of the kernel's connection tracking.
type Kernel interface {
	// List returns those entries of the query that want says yes to.
	List(q conntrack.Query, want func(conntrack.Entry) bool) ([]conntrack.Entry, error)
	// Delete ends entries. It returns how many were still there, also with an error.
	Delete([]conntrack.Entry) (int, error)
}

// Config says which flows end and who is told.
type Config struct {
	// EndTCP also ends TCP connections to endpoints that are in none of their pool's
	// Flows, which then must be filled for TCP. Without it they may drain.
	EndTCP bool
	// Reconciled is told each time the flows of a family are as they should be: how
	// many were ended since the last time, and how long it took. Nil means nobody is.
	// It is called from Run's goroutine.
	Reconciled func(f model.Family, deleted int, took time.Duration)
}

// Flows is a [sync.Follower] that ends flows which lead nowhere.
type Flows struct {
	kernel     Kernel
	reconciled func(model.Family, int, time.Duration)
	log        *slog.Logger

	// tracker belongs to Run's goroutine, as does all below that has no lock.
	tracker tracker
	deleted [len(model.Families)]int // not reported yet
	pause   pause

	mu      stdsync.Mutex // guards news
	updates []sync.Committed
	// wake has room for one: that there are news.
	wake chan struct{}
}

// New makes a Flows; nothing happens before Run.
func New(c Config, kernel Kernel, log *slog.Logger) *Flows {
	protocols := []model.Protocol{model.UDP}
	if c.EndTCP {
		protocols = append(protocols, model.TCP)
	}
	f := &Flows{
		kernel: kernel, reconciled: c.Reconciled, log: log,
		tracker: newTracker(protocols), pause: newPause(), wake: make(chan struct{}, 1),
	}
	if f.reconciled == nil {
		f.reconciled = func(model.Family, int, time.Duration) {}
	}
	return f
}

// Follow implements [sync.Follower]. It only notes what is for Run to do.
func (f *Flows) Follow(t sync.Committed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.updates = append(f.updates, t)
	select {
	case f.wake <- struct{}{}:
	default: // told already
	}
}

// applyUpdates brings the state up to date.
func (f *Flows) applyUpdates() {
	f.mu.Lock()
	news := f.updates
	f.updates = nil
	f.mu.Unlock()
	for _, t := range news {
		f.tracker.apply(t)
	}
}
