package takeover

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStoredStateIsReadBack(t *testing.T) {
	now := time.Date(2026, 11, 22, 18, 10, 0, 0, time.FixedZone("", 3600))
	if text := (storedState{until: now}).store().String(); !strings.Contains(text, `"probation until=2026-11-22T17:10:00Z"`) {
		t.Errorf("stored %s", text)
	}
	if text := (storedState{until: now, starts: 3}).store().String(); !strings.Contains(text, `"probation until=2026-11-22T17:10:00Z starts=3"`) {
		t.Errorf("stored %s", text)
	}
	if text := (storedState{returned: "2026-11-22T17:10:00Z reason=x"}).store().String(); !strings.Contains(text, "returned at=2026-11-22T17:10:00Z reason=x") {
		t.Errorf("stored %s", text)
	}
	if text := (storedState{removing: true}).store().String(); !strings.Contains(text, removalText) {
		t.Errorf("stored %s", text)
	}
	for _, tc := range []struct {
		text string
		want storedState
	}{
		{"", storedState{}},
		{"probation until=2026-11-22T17:10:00Z", storedState{until: now.UTC()}},
		{"probation until=2026-11-22T17:10:00Z starts=3", storedState{until: now.UTC(), starts: 3}},
		{"probation until=2026-11-22T17:10:00Z starts=5", storedState{until: now.UTC(), starts: maxStarts}},
		{"probation until=2026-11-22T17:10:00Z starts=6", storedState{until: now.UTC()}},
		{"probation until=2026-11-22T17:10:00Z starts=-1", storedState{until: now.UTC()}},
		{"probation until=2026-11-22T17:10:00Z starts=5 more", storedState{until: now.UTC()}},
		{"probation until=x starts=5", storedState{until: time.Unix(0, 0)}},
		{"something of a later version starts=5", storedState{until: time.Unix(0, 0)}},
		{"returned at=2026-11-22T17:10:00Z reason=x", storedState{returned: "2026-11-22T17:10:00Z reason=x"}},
		{"removing kube-proxy's rules", storedState{removing: true}},
		{"something of a later version", storedState{until: time.Unix(0, 0)}},
	} {
		if got := parseState(tc.text); got != tc.want {
			t.Errorf("%q: got %+v, want %+v", tc.text, got, tc.want)
		}
	}
}

func TestRemainingProbationAfterRestart(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct{ until, configured, want time.Duration }{
		{5 * time.Minute, 10 * time.Minute, 5 * time.Minute},
		{24 * time.Hour, 10 * time.Minute, 10 * time.Minute}, // the clock has jumped
		{-time.Hour, 10 * time.Minute, time.Minute},
		{5 * time.Minute, time.Second, time.Second},
		{-time.Hour, time.Second, time.Second},
	} {
		if got := remaining(now.Add(tc.until), now, tc.configured); got != tc.want {
			t.Errorf("stored for %s, configured %s: %s remain, want %s", tc.until, tc.configured, got, tc.want)
		}
	}
}

func TestReportSaysWhetherKubeProxyIsStoppedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default", "a")
		to := f.takeover(10 * time.Minute)
		f.after(time.Minute, func() { f.refusing[clusterIP(1)], f.refusing[clusterIP(2)] = true, true })
		_, failure := f.run(to, 10*time.Minute)
		if failure == nil {
			t.Fatal("the probation does not fail")
		}
		delete(f.refusing, clusterIP(1))
		if got := to.AskAgain(t.Context(), failure); got != "a/web at 10.96.0.2:80 does not answer through kube-proxy's rules either "+
			"(refused): kube-vmap explain shows why" {
			t.Errorf("with one that does not answer: %q", got)
		}
		delete(f.refusing, clusterIP(2))
		if got := to.AskAgain(t.Context(), failure); got != "through kube-proxy's rules they answer now" {
			t.Errorf("when all answer: %q", got)
		}
		if got := to.AskAgain(t.Context(), &FailedError{Reason: "another one"}); got != "" {
			t.Errorf("without addresses: %q", got)
		}
	})
}
