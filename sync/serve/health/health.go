// Package health serves the proxy's probes. The loop reports which changes wait for the
// kernel and when they were committed:
//
//	           Queued, Synced, Node               GET
//	sync.Loop ----------------------> Health <---------- /healthz  load balancer: may this node get connections?
//	                                         <---------- /livez    kubelet: must the proxy be restarted?
//	                                         <---------- /readyz   kubelet: does the proxy do its work?
//
// The proxy is unhealthy if a change has been pending for too long, not if nothing was
// committed recently: while the API server is unavailable there are no changes, and
// restarting the proxy or moving its connections elsewhere would not help. Both IP
// families are committed in one transaction, so they have the same health.
//
// Paths, status codes and bodies are kube-proxy's, apart from /readyz and the fields ready and
// reason. What it keeps of the loop is in `kube-vmap status`, too.
package health

import (
	"encoding/json"
	"net/http"
	"strings"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// Config configures a [Health].
type Config struct {
	// SyncPeriod is the longest delay between attempts to commit a change. A change that
	// is pending for twice as long is overdue.
	SyncPeriod time.Duration
	// Probed, unless it is nil, is called with each probe ("healthz", "livez" or "readyz") and its
	// HTTP status. It must not block, and must be safe for concurrent use.
	Probed func(probe string, code int)
	// NotReady, unless it is nil, returns why the proxy is not ready for another reason than
	// the loop's; empty if there is none. It must be safe for concurrent use.
	NotReady func() string
}

// Health is a [sync.Observer] that serves probes. It is safe for concurrent use.
type Health struct {
	Config
	mu    stdsync.Mutex // guards state
	state state
}

// A state is what the loop has reported.
type state struct {
	updated      time.Time // when all changes were last committed
	pendingSince time.Time // when the oldest pending change was queued; zero if there is none
	committed    bool      // anything, since the process started
	loop         Loop
	nodeKnown    bool
	ineligible   string // why load balancers should not use the node; empty if they should
}

// New returns a Health without pending changes. The start of the process counts as the
// last update, as in kube-proxy.
func New(c Config) *Health {
	if c.Probed == nil {
		c.Probed = func(string, int) {}
	}
	if c.NotReady == nil {
		c.NotReady = func() string { return "" }
	}
	return &Health{Config: c, state: state{updated: time.Now()}}
}

// Queued implements [sync.Observer].
func (h *Health) Queued(sync.QueuedChanges) { h.markPending() }

// Synced implements [sync.Observer].
func (h *Health) Synced(r sync.Result) {
	if r.Err != nil {
		h.markPending() // also if nothing was queued, as when retrying a refused port
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state.loop.synced(r); r.Err != nil {
		return
	}
	if h.state.committed = true; r.Full || !r.Drift { // a mere repair has no changes that wait
		h.state.updated, h.state.pendingSince = time.Now(), time.Time{}
	}
}

// Node implements [sync.Observer].
func (h *Health) Node(n sync.SetNode) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.nodeKnown, h.state.ineligible = true, n.Ineligible
}

// markPending starts the time that a change is pending, unless one is already.
func (h *Health) markPending() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state.pendingSince.IsZero() {
		h.state.pendingSince = time.Now()
	}
}

// Stop notes that the loop has ended, although the process goes on. Nothing is overdue then, and
// load balancers should not use the node, for the given reason.
func (h *Health) Stop(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.pendingSince, h.state.nodeKnown, h.state.ineligible = time.Time{}, true, reason
}

// Healthy reports whether no change is overdue, as /livez does.
func (h *Health) Healthy() bool {
	_, late := h.overdue(h.snapshot(), time.Now())
	return !late
}

// overdue returns how long a change has been pending, and whether that is too long.
func (h *Health) overdue(s state, now time.Time) (time.Duration, bool) {
	waited := now.Sub(s.pendingSince)
	return waited, !s.pendingSince.IsZero() && waited >= 2*h.SyncPeriod
}

func (h *Health) snapshot() state {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// A Loop is the work of the loop since the process started, for people. Unlike a
// response to a probe it has errors, which name objects.
type Loop struct {
	// Synced is when a sync last succeeded; zero if none has.
	Synced time.Time
	// FailingSince is when the first sync after that failed, and Err is the error of the
	// last one; zero and nil if none did.
	FailingSince time.Time
	Err          error
	// PendingSince is when the oldest change was queued that is not committed; zero if
	// there is none. Overdue means that the liveness probe fails for it.
	PendingSince time.Time
	Overdue      bool
	// Repairs counts repairs of tables that another program changed; Repaired is when the
	// last one was.
	Repairs  int
	Repaired time.Time
	// Counts after the last sync that succeeded; see [sync.Result].
	QuarantinedPorts, InvalidObjects, Conflicts int
	NodeProblems                                []sync.Problem
}

// Loop returns the work of the loop so far.
func (h *Health) Loop() Loop {
	s := h.snapshot()
	s.loop.PendingSince = s.pendingSince
	_, s.loop.Overdue = h.overdue(s, time.Now())
	return s.loop
}

func (l *Loop) synced(r sync.Result) {
	now := time.Now()
	if l.Err = r.Err; r.Err != nil {
		if l.FailingSince.IsZero() {
			l.FailingSince = now
		}
		return
	}
	l.Synced, l.FailingSince = now, time.Time{}
	l.QuarantinedPorts, l.InvalidObjects, l.Conflicts = r.QuarantinedPorts, r.InvalidObjects, r.Conflicts
	l.NodeProblems = r.NodeProblems
	if r.Drift {
		l.Repairs, l.Repaired = l.Repairs+1, now
	}
}

// A response is the body of every probe. The order of its fields is kube-proxy's. What is
// known, and when it changes, is in health.go.
type response struct {
	LastUpdated time.Time `json:"lastUpdated"`
	CurrentTime time.Time `json:"currentTime"`
	// NodeEligible is only in responses of /healthz, Ready only of /readyz.
	NodeEligible *bool `json:"nodeEligible,omitempty"`
	Ready        *bool `json:"ready,omitempty"`
	// Healthy is set if no change is overdue, whether or not the node is eligible.
	Healthy bool `json:"healthy"`
	// Reason is why the status is not 200. It names no objects, because everyone who
	// can reach the node can read it. Errors are in the log.
	Reason string                  `json:"reason,omitempty"`
	Status map[string]familyStatus `json:"status"` // by family
}

type familyStatus struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// Handler serves /healthz, /livez and /readyz, for GET and HEAD.
func (h *Health) Handler() http.Handler {
	probes := map[string]func(*response, state) string{
		"healthz": (*response).checkEligible,
		"livez":   func(*response, state) string { return "" },
		"readyz":  h.checkReady,
	}
	mux := http.NewServeMux()
	for probe, check := range probes {
		mux.HandleFunc("GET /"+probe, func(w http.ResponseWriter, _ *http.Request) {
			a := h.response(check)
			h.Probed(probe, a.write(w))
		})
	}
	return mux
}

// response returns the response for the current state. Check is what the probe requires
// beyond that no change is overdue; it returns the reason for a failure.
func (h *Health) response(check func(*response, state) string) *response {
	s, now := h.snapshot(), time.Now()
	a := &response{LastUpdated: s.updated, CurrentTime: now, Healthy: true, Status: map[string]familyStatus{}}
	var reasons []string
	if waited, late := h.overdue(s, now); late {
		a.Healthy = false
		reasons = append(reasons, "changes have been waiting for the kernel for "+waited.Round(time.Second).String())
	}
	if reason := check(a, s); reason != "" {
		reasons = append(reasons, reason)
	}
	for _, f := range model.Families {
		a.Status[f.String()] = familyStatus{LastUpdated: s.updated.UTC(), Healthy: a.Healthy}
	}
	a.Reason = strings.Join(reasons, "; ")
	return a
}

// checkEligible checks whether load balancers may use the node (KEP-3836). As in
// kube-proxy, they may not before it is known.
func (a *response) checkEligible(s state) string {
	eligible := s.nodeKnown && s.ineligible == ""
	a.NodeEligible = &eligible
	if !s.nodeKnown {
		return "the node is not known yet"
	}
	return s.ineligible
}

// checkReady checks whether anything was committed, and nothing else is in the way.
func (h *Health) checkReady(a *response, s state) string {
	reason := h.NotReady()
	if reason == "" && !s.committed {
		reason = "nothing has been programmed yet"
	}
	ready := reason == ""
	a.Ready = &ready
	return reason
}

func (a *response) write(w http.ResponseWriter) int {
	code := http.StatusServiceUnavailable
	if a.Reason == "" {
		// Older kube-proxies synced even without changes, so clients expect that a
		// healthy one was updated just now.
		code, a.LastUpdated = http.StatusOK, a.CurrentTime
	}
	a.LastUpdated, a.CurrentTime = a.LastUpdated.UTC(), a.CurrentTime.UTC()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(a) // the client may be gone
	return code
}
