package health

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"kube-vmap/model"
)

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
