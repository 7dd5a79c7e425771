// Package health answers those that probe the proxy. It is told by the loop what
// waits for the kernel and what became of it, and knows nothing else:
//
//	            Queued, Synced, Node              GET
//	sync.Loop ----------------------> Health <---------- /healthz  load balancer: may this node get connections?
//	                                          <--------- /livez    kubelet: must the proxy be started again?
//	                                          <--------- /readyz   kubelet: does the proxy do its work?
//
// Not when something was last done counts, but how long something has been
// waiting: while the API server is away nothing is queued, what is programmed
// stays right as far as anybody can know, and restarting the proxy or sending
// its connections elsewhere would help nobody. Both IP families go to the kernel
// in one transaction, so what is said of one is true of the other.
//
// Paths, codes and bodies are kube-proxy's, but for /readyz and the fields ready
// and reason.
package health

import (
	stdsync "sync"
	"time"

	"kube-vmap/sync"
)

// Config is what a [Health] is told once.
type Config struct {
	// SyncPeriod is how long what failed waits before it is tried again, at most.
	// What has waited for twice as long is late.
	SyncPeriod time.Duration
	// Probed is told of each answer: the probe ("healthz", "livez" or "readyz") and
	// the HTTP status; nil means nobody is. It must not wait, and may be called from
	// several goroutines at a time.
	Probed func(probe string, code int)
}

// Health is a [sync.Observer] that judges what it hears. It is safe for use by
// several goroutines.
type Health struct {
	timeout time.Duration
	probed  func(probe string, code int)

	mu    stdsync.Mutex // guards state; held for no longer than it takes to copy it
	state state
}

// state is all that is known.
type state struct {
	// updated is when the kernel was last as it should be, waiting since when it is
	// not: zero if it is.
	updated, pendingSince time.Time
	committed             bool // anything, since the process began
	// nodeKnown tells whether the node is. Ineligible says why it should get no
	// connections from load balancers; empty if it should.
	nodeKnown  bool
	ineligible string
}

// New makes a Health that is alive: nothing waits yet. The process counts as
// brought up to date when it began, as in kube-proxy.
func New(c Config) *Health {
	h := &Health{timeout: 2 * c.SyncPeriod, probed: c.Probed, state: state{updated: time.Now()}}
	if h.probed == nil {
		h.probed = func(string, int) {}
	}
	return h
}

// Queued implements [sync.Observer].
func (h *Health) Queued(sync.QueuedChanges) { h.markPending() }

// Synced implements [sync.Observer].
func (h *Health) Synced(r sync.Result) {
	if r.Err != nil {
		h.markPending() // also for what nobody queued, another attempt at what the kernel refused for instance
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.updated, h.state.pendingSince, h.state.committed = time.Now(), time.Time{}, true
}

// Node implements [sync.Observer].
func (h *Health) Node(n sync.SetNode) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.nodeKnown, h.state.ineligible = true, n.Ineligible
}

// markPending notes that something waits from now on, if nothing does yet.
func (h *Health) markPending() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state.pendingSince.IsZero() {
		h.state.pendingSince = time.Now()
	}
}

// Healthy tells whether nothing is late, which is what /livez says.
func (h *Health) Healthy() bool {
	_, late := h.overdue(h.snapshot(), time.Now())
	return !late
}

// overdue tells whether what waits for the kernel has waited too long, and how long.
func (h *Health) overdue(s state, now time.Time) (time.Duration, bool) {
	waited := now.Sub(s.pendingSince)
	return waited, !s.pendingSince.IsZero() && waited >= h.timeout
}

// snapshot is what is known now.
func (h *Health) snapshot() state {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}
