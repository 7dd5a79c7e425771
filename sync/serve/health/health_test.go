package health_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/serve/health"
)

// A rig has a Health in a bubble of synctest, where time starts with the year 2000.
type rig struct {
	*health.Health
	t      *testing.T
	probed []string
}

func newRig(t *testing.T) *rig {
	p := &rig{t: t}
	p.Health = health.New(health.Config{
		SyncPeriod: 30 * time.Second,
		Probed:     func(probe string, code int) { p.probed = append(p.probed, fmt.Sprint(probe, " ", code)) },
	})
	return p
}

func (p *rig) ask(method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequestWithContext(p.t.Context(), method, path, strings.NewReader("")))
	return w
}

// expect compares the statuses of all probes.
func (p *rig) expect(when string, healthz, livez, readyz int) {
	p.t.Helper()
	for path, want := range map[string]int{"/healthz": healthz, "/livez": livez, "/readyz": readyz} {
		if w := p.ask(http.MethodGet, path); w.Code != want {
			p.t.Errorf("%s, %s answers %d, want %d: %s", when, path, w.Code, want, w.Body)
		}
	}
}

// node is the proxy's own node, which load balancers may use.
var node = sync.SetNode{Node: model.Node{Name: "node-1"}}

var failed = sync.Result{Err: errors.New("apply batch: service default/secret: no buffer space available")}

func TestResponsesAreThoseOfKubeProxy(t *testing.T) {
	const (
		early, late = `"2000-01-01T00:00:00Z"`, `"2000-01-01T00:01:00Z"`
		wait        = `"reason":"changes have been waiting for the kernel for 1m0s`
	)
	// A response that is not bad says that it was updated just now.
	body := func(now, updated, fields string, healthy bool) string {
		latest := now
		if strings.Contains(fields, "reason") {
			latest = updated
		}
		return fmt.Sprintf(`{"lastUpdated":%[1]s,"currentTime":%[2]s,%[3]s,`+
			`"status":{"IPv4":{"lastUpdated":%[4]s,"healthy":%[5]t},"IPv6":{"lastUpdated":%[4]s,"healthy":%[5]t}}}`,
			latest, now, fields, updated, healthy)
	}
	tests := []struct {
		name   string
		before func(*rig)
		bodies map[string]string
	}{
		{"at the start", func(*rig) {}, map[string]string{
			"/healthz": body(early, early, `"nodeEligible":false,"healthy":true,"reason":"the node is not known yet"`, true),
			"/livez":   body(early, early, `"healthy":true`, true),
			"/readyz":  body(early, early, `"ready":false,"healthy":true,"reason":"nothing has been programmed yet"`, true),
		}},
		{"when all is well", func(p *rig) { p.Node(node); p.Queued(sync.QueuedChanges{}); p.Synced(sync.Result{}) }, map[string]string{
			"/healthz": body(early, early, `"nodeEligible":true,"healthy":true`, true),
			"/livez":   body(early, early, `"healthy":true`, true),
			"/readyz":  body(early, early, `"ready":true,"healthy":true`, true),
		}},
		{"when all was well a minute ago", func(p *rig) { p.Node(node); p.Synced(sync.Result{}); pass(time.Minute) }, map[string]string{
			"/livez": body(late, early, `"healthy":true`, true),
		}},
		{"when changes are overdue", func(p *rig) { p.Node(node); p.Queued(sync.QueuedChanges{}); p.Synced(failed); pass(time.Minute) }, map[string]string{
			"/healthz": body(late, early, `"nodeEligible":true,"healthy":false,`+wait+`"`, false),
			"/livez":   body(late, early, `"healthy":false,`+wait+`"`, false),
			"/readyz":  body(late, early, `"ready":false,"healthy":false,`+wait+`; nothing has been programmed yet"`, false),
		}},
		{"when the loop has ended with a change", func(p *rig) { p.Queued(sync.QueuedChanges{}); pass(time.Minute); p.Stop("returned") }, map[string]string{
			"/healthz": body(late, early, `"nodeEligible":false,"healthy":true,"reason":"returned"`, true),
			"/livez":   body(late, early, `"healthy":true`, true),
		}},
		{"when the node is leaving", func(p *rig) { p.Node(sync.SetNode{Ineligible: "the node is being deleted"}) }, map[string]string{
			"/healthz": body(early, early, `"nodeEligible":false,"healthy":true,"reason":"the node is being deleted"`, true),
			"/livez":   body(early, early, `"healthy":true`, true),
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newRig(t)
				test.before(p)
				for path, want := range test.bodies {
					w := p.ask(http.MethodGet, path)
					if got := strings.TrimSuffix(w.Body.String(), "\n"); got != want {
						t.Errorf("%s answers\n%s\nwant\n%s", path, got, want)
					}
					if bad := strings.Contains(want, "reason"); bad != (w.Code == http.StatusServiceUnavailable) || !bad && w.Code != http.StatusOK {
						t.Errorf("%s answers %d with %s", path, w.Code, want)
					}
				}
			})
		})
	}
}

func pass(d time.Duration) { <-time.After(d) }

func TestOverdueAfterTwoSyncPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRig(t)
		p.Node(node)
		p.expect("at the start", 200, 200, 503)
		pass(time.Hour)
		p.expect("an hour without a server", 200, 200, 503)
		p.Queued(sync.QueuedChanges{Services: 1})
		pass(time.Minute - 1)
		p.expect("just in time", 200, 200, 503)
		pass(1)
		p.expect("overdue", 503, 503, 503)
		p.Synced(sync.Result{Drift: true})
		p.expect("overdue, after a repair of the tables", 503, 503, 503)
		p.Synced(sync.Result{})
		p.expect("after the first commit", 200, 200, 200)
		pass(24 * time.Hour)
		p.expect("a day without changes", 200, 200, 200)
	})
}

func TestResponsesMustNotBeStored(t *testing.T) {
	p := newRig(t)
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			header := p.ask(method, path).Header()
			for name, want := range map[string]string{
				"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			} {
				if got := header.Get(name); got != want {
					t.Errorf("%s %s: %s is %q, want %q", method, path, name, got, want)
				}
			}
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			if w := p.ask(method, path); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s answers %d", method, path, w.Code)
			}
		}
	}
	for _, path := range []string{"/", "/health", "/healthz/", "/livez/ping", "/metrics"} {
		if w := p.ask(http.MethodGet, path); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "livez") {
			t.Errorf("%s answers %d: %s", path, w.Code, w.Body)
		}
	}
}

func TestProbesAreReportedWithTheirStatus(t *testing.T) {
	p := newRig(t)
	p.ask(http.MethodGet, "/healthz")
	p.ask(http.MethodHead, "/livez")
	p.ask(http.MethodPost, "/livez") // not a probe
	p.ask(http.MethodGet, "/nothing")
	p.Node(node)
	p.Synced(sync.Result{})
	p.ask(http.MethodGet, "/healthz")
	p.ask(http.MethodGet, "/readyz")
	if got, want := strings.Join(p.probed, ", "), "healthz 503, livez 200, healthz 200, readyz 200"; got != want {
		t.Errorf("probes %s, want %s", got, want)
	}
}

func TestLoopSumsUpItsSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRig(t)
		expect := func(when string, want health.Loop) {
			t.Helper()
			if diff := cmp.Diff(want, p.Loop(), cmpopts.EquateErrors()); diff != "" {
				t.Errorf("%s, -want +got:\n%s", when, diff)
			}
		}
		start := time.Now()
		at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
		expect("at the start", health.Loop{})
		p.Queued(sync.QueuedChanges{Services: 1})
		pass(time.Second)
		p.Synced(failed)
		pass(time.Second)
		p.Synced(failed)
		p.Queued(sync.QueuedChanges{Slices: 1}) // does not extend the deadline
		expect("while syncs fail", health.Loop{FailingSince: at(1), Err: failed.Err, PendingSince: start})
		pass(time.Minute)
		expect("after a minute", health.Loop{FailingSince: at(1), Err: failed.Err, PendingSince: start, Overdue: true})
		problems := []sync.Problem{{Reason: model.ProblemAPIServer, Text: "it is a Service"}}
		p.Synced(sync.Result{QuarantinedPorts: 1, InvalidObjects: 2, Conflicts: 3, Full: true, Drift: true, NodeProblems: problems})
		repaired := health.Loop{
			Synced: at(62), QuarantinedPorts: 1, InvalidObjects: 2, Conflicts: 3, Repairs: 1, Repaired: at(62), NodeProblems: problems,
		}
		expect("after a repair", repaired)
		pass(time.Second)
		p.Synced(sync.Result{})
		expect("after a sync", health.Loop{Synced: at(63), Repairs: 1, Repaired: at(62)})
		pass(time.Second)
		p.Synced(failed)
		expect("after another failure", health.Loop{
			Synced: at(63), FailingSince: at(64), Err: failed.Err, PendingSince: at(64), Repairs: 1, Repaired: at(62),
		})
	})
}
