package shadow

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// TestMonitorLogsAndCountsWhatChanges feeds rounds to a monitor.
func TestMonitorLogsAndCountsWhatChanges(t *testing.T) {
	var log bytes.Buffer
	m := NewMonitor(slog.New(slog.NewTextHandler(&log, nil)))
	get := func(path string) (string, int) {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Body.String(), w.Code
	}
	logged := func(want string, times int) {
		t.Helper()
		if n := strings.Count(log.String(), want); n != times {
			t.Errorf("%q is logged %d times, want %d:\n%s", want, n, times, log.String())
		}
		log.Reset()
	}
	m.OnRound(nil, errors.New("no rules"))
	m.OnRound(nil, errors.New("no rules"))
	logged("cannot compare", 1)
	if _, code := get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("ready before the first round: %d", code)
	}
	web := Difference{Service: "shop/web", Frontend: "10.96.0.1:80/tcp", Kind: KindEndpoints, Clients: []string{"pod"}}
	meant := Difference{Service: "shop/web", Kind: KindVerdict, Intended: "conflicting claims: shop/other holds it", reason: intendedConflict}
	r := &Report{Services: 3, Frontends: 4, Dormant: []string{"IPv4"}, Differences: []Difference{web, meant}}
	for range 2 {
		m.OnRound(r, nil)
	}
	if !strings.Contains(log.String(), `msg="first comparison with kube-proxy" services=3 frontends=4 `) {
		t.Error(log.String())
	}
	logged("differs from kube-proxy", 1)
	text, _ := get("/metrics")
	for _, want := range []string{
		`kubevmap_shadow_differences{kind="endpoints"} 1`, `kubevmap_shadow_differences{kind="shares"} 0`,
		`kubevmap_shadow_intended_differences{reason="conflicting claims"} 1`, `kubevmap_shadow_dormant_families 1`,
		`kubevmap_shadow_failed_rounds_total 2`, `kubevmap_shadow_service_ports 3`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s:\n%s", want, text)
		}
	}
	if _, code := get("/readyz"); code != http.StatusOK {
		t.Errorf("not ready after a round: %d", code)
	}
	r.Differences = nil
	m.OnRound(r, nil)
	logged("no longer differs", 1)
	if text, _ := get("/metrics"); !strings.Contains(text, `kubevmap_shadow_differences{kind="endpoints"} 0`) {
		t.Errorf("the difference is still counted:\n%s", text)
	}
}

func TestMetricsOfShadowAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	m := NewMonitor(slog.New(slog.DiscardHandler))
	m.intended.WithLabelValues("any")
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !bytes.Contains(text, []byte("`"+f.GetName()+"`")) {
			t.Errorf("docs/metrics.md does not mention %s", f.GetName())
		}
	}
}

// TestLoopOfShadowIsNotReady has what the loop logs: it programs nothing.
func TestLoopOfShadowIsNotReady(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(warnings{slog.NewTextHandler(&out, nil)}).With("node", "a")
	log.Info("ready", "services", 3)
	log.Warn("not watched")
	if text := out.String(); strings.Contains(text, "ready") || !strings.Contains(text, "not watched") {
		t.Error(text)
	}
}
