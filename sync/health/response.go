package health

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"kube-vmap/model"
)

// response is the body of every answer. The order of its fields is kube-proxy's.
type response struct {
	LastUpdated time.Time `json:"lastUpdated"`
	CurrentTime time.Time `json:"currentTime"`
	// NodeEligible is in answers of /healthz only, Ready in those of /readyz.
	NodeEligible *bool `json:"nodeEligible,omitempty"`
	Ready        *bool `json:"ready,omitempty"`
	// Healthy tells whether nothing is late, whatever the node is.
	Healthy bool `json:"healthy"`
	// Reason says why the status is not 200. It names no objects: everybody who
	// reaches the node can ask. Errors are in the log.
	Reason string                  `json:"reason,omitempty"`
	Status map[string]familyStatus `json:"status"` // by family
}

// familyStatus is how one family stands.
type familyStatus struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// Handler serves /healthz, /livez and /readyz, for GET and HEAD.
func (h *Health) Handler() http.Handler {
	probes := map[string]func(*response, state) string{
		"healthz": (*response).checkEligible,
		"livez":   func(*response, state) string { return "" },
		"readyz":  (*response).checkReady,
	}
	mux := http.NewServeMux()
	for probe, judge := range probes {
		mux.HandleFunc("GET /"+probe, func(w http.ResponseWriter, _ *http.Request) {
			a := h.response(judge)
			h.probed(probe, a.write(w))
		})
	}
	return mux
}

// response says how things stand. What the probe asks beyond that nothing is late
// is for judge to tell, which says what is wrong with it.
func (h *Health) response(judge func(*response, state) string) *response {
	s, now := h.snapshot(), time.Now()
	a := &response{LastUpdated: s.updated, CurrentTime: now, Healthy: true, Status: map[string]familyStatus{}}
	var reasons []string
	if waited, late := h.overdue(s, now); late {
		a.Healthy = false
		reasons = append(reasons, "changes have been waiting for the kernel for "+waited.Round(time.Second).String())
	}
	if reason := judge(a, s); reason != "" {
		reasons = append(reasons, reason)
	}
	for _, f := range model.Families {
		a.Status[f.String()] = familyStatus{LastUpdated: s.updated.UTC(), Healthy: a.Healthy}
	}
	a.Reason = strings.Join(reasons, "; ")
	return a
}

// checkEligible judges whether load balancers may choose the node (KEP-3836). One that
// nothing is known of yet they may not, as in kube-proxy.
func (a *response) checkEligible(s state) string {
	eligible := s.nodeKnown && s.ineligible == ""
	a.NodeEligible = &eligible
	if !s.nodeKnown {
		return "nothing is known of the node yet"
	}
	return s.ineligible
}

// checkReady judges whether anything is programmed.
func (a *response) checkReady(s state) string {
	a.Ready = &s.committed
	if !s.committed {
		return "nothing has been programmed yet"
	}
	return ""
}

// write writes the answer and returns its status.
func (a *response) write(w http.ResponseWriter) int {
	code := http.StatusServiceUnavailable
	if a.Reason == "" {
		// Older kube-proxies worked even if there was nothing to do, so those who
		// ask expect of a sound one that it did so just now.
		code, a.LastUpdated = http.StatusOK, a.CurrentTime
	}
	a.LastUpdated, a.CurrentTime = a.LastUpdated.UTC(), a.CurrentTime.UTC()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(a) // whoever asked does not listen any more
	return code
}
