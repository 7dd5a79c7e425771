package shadow

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/model"
	"kube-vmap/sync"
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

var webMatch = model.Match{Family: model.IPv4, Addr: netip.MustParseAddr("10.96.0.1"), Protocol: model.TCP, Port: 80}

// TestDifferencesCountAfterTwoRoundsWithoutChanges follows a difference over rounds.
func TestDifferencesCountAfterTwoRoundsWithoutChanges(t *testing.T) {
	now := time.Unix(1000, 0)
	tr := newTracker(func() time.Time { return now })
	web := Difference{Service: "shop/web", Frontend: webMatch.String(), Kind: KindEndpoints}
	meant := Difference{Service: "shop/web", Frontend: webMatch.String(), Kind: KindShares, Intended: "weights"}
	during := func() {}
	round := func(want int, list ...Difference) {
		t.Helper()
		began := now
		during()
		r := &Report{Differences: slices.Clone(list)}
		tr.confirm(r, began)
		if len(r.Differences) != want || want+r.Pending != len(list) {
			t.Errorf("%d confirmed, %d pending, want %d of %d", len(r.Differences), r.Pending, want, len(list))
		}
	}
	round(1, web, meant) // just started: only what is intended
	round(1, web, meant)
	now = now.Add(settled + time.Second)
	round(2, web, meant)
	tr.Follow(sync.Committed{Set: []model.Frontend{{Match: webMatch}}})
	now = now.Add(settled / 2)
	round(0, web) // the Service has just changed
	now = now.Add(settled)
	round(1, web)
	round(0)
	round(0, web) // it is new
	round(1, web)
	tr.Follow(sync.Committed{Removed: []model.Match{webMatch}})
	round(0, web)
	now = now.Add(settled + time.Second)
	during = func() { // a long round
		now = now.Add(2 * settled)
		tr.Follow(sync.Committed{Set: []model.Frontend{{Match: webMatch}}})
		now = now.Add(2 * settled)
	}
	round(0, web)
}

func TestExitCodeIsThatOfDifferencesThatCount(t *testing.T) {
	counting, meant, unclear := Difference{Kind: KindShares}, Difference{Kind: KindShares, Intended: "weights"}, Difference{Kind: KindUnknown}
	for _, tc := range []struct {
		name string
		r    Report
		want int
	}{
		{"nothing", Report{}, 0},
		{"intended", Report{Differences: []Difference{meant}}, 0},
		{"one that counts", Report{Differences: []Difference{unclear, meant, counting}}, 1},
		{"more than are kept", Report{More: 1}, 1},
		{"rules that are not understood", Report{Differences: []Difference{unclear}}, exit.Trouble},
		{"not confirmed", Report{Pending: 1}, exit.Trouble},
		{"one that counts, others not confirmed", Report{Differences: []Difference{counting}, Pending: 1}, 1},
	} {
		if got := tc.r.exitCode(); got != tc.want {
			t.Errorf("%s: exit code %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestTextListsWhatCountsAndCountsWhatIsIntended(t *testing.T) {
	found := []Difference{
		{Service: "shop/web", Frontend: "*:30080/tcp", Family: "IPv6", Kind: KindVerdict, Clients: []string{"pod", "node"}, Ours: "dropped", Theirs: "to 2 endpoints"},
		{Service: "shop/web", Frontend: "10.96.0.1:80/tcp", Family: "IPv4", Kind: KindVerdict, Clients: []string{"pod"}, Intended: "conflicting claims: shop/a", reason: intendedConflict},
		{Service: "shop/db", Frontend: "10.96.0.2:80/tcp", Family: "IPv4", Kind: KindVerdict, Clients: []string{"pod"}, Intended: "conflicting claims: shop/b", reason: intendedConflict},
	}
	for _, all := range []bool{false, true} {
		r := Report{Mode: "nftables", Services: 3, Frontends: 4, Packets: 5, Dormant: []string{"IPv4"}, Differences: slices.Clone(found)}
		r.countIntended(all)
		var out bytes.Buffer
		if err := r.writeText(&out); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range []string{
			"shop/web *:30080/tcp (IPv6) verdict pod,node dropped to 2 endpoints <no>",
			"(nftables): 3 Service ports, 4 addresses, 5 packets; 1 differences",
			"intended: 2 x conflicting claims", "rules for IPv4 are dormant",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("all %t: no %q in\n%s", all, want, out.String())
			}
		}
		if strings.Contains(text, "shop/db") != all {
			t.Errorf("all %t:\n%s", all, out.String())
		}
	}
}
