package takeover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStoredStateIsReadBack(t *testing.T) {
	now := time.Date(2026, 11, 22, 18, 10, 0, 0, time.FixedZone("", 3600))
	if text := storeProbation(now, 0).String(); !strings.Contains(text, `"probation until=2026-11-22T17:10:00Z"`) {
		t.Errorf("stored %s", text)
	}
	if text := storeProbation(now, 3).String(); !strings.Contains(text, `"probation until=2026-11-22T17:10:00Z starts=3"`) {
		t.Errorf("stored %s", text)
	}
	if text := storeReturned(now, "x").String(); !strings.Contains(text, "returned at=2026-11-22T17:10:00Z reason=x") {
		t.Errorf("stored %s", text)
	}
	if text := storeRemoval().String(); !strings.Contains(text, removalText) {
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

// inProbation returns a node in a probation, with this number of starts before the first sync.
func inProbation(t *testing.T, starts int) *fake {
	f := newFake(t, "default")
	f.setSuspended(true)
	f.state = storedState{until: time.Now().Add(5 * time.Minute), starts: starts}
	return f
}

func TestNodeIsReturnedAfterTooManyStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inProbation(t, 0)
		until := f.state.until
		for n := range maxStarts {
			err := f.takeover(10 * time.Minute).Start()
			if want := (storedState{until: until, starts: n + 1}); err != nil || f.state != want {
				t.Fatalf("start %d: %v, stored %+v, want %+v", n+1, err, f.state, want)
			}
		}
		var failure *FailedError
		err := f.takeover(10 * time.Minute).Start()
		if !errors.As(err, &failure) || failure.Returned || failure.Reason != "kube-vmap ended 5 times before its first sync" {
			t.Errorf("it ends with %v", err)
		}
		if f.state.starts != 1 { // the caller could not return the node
			t.Errorf("stored %d starts", f.state.starts)
		}
	})
}

func TestNodeIsNotReturnedWithoutRules(t *testing.T) {
	f := inProbation(t, maxStarts)
	f.found.Parts = nil
	if err := f.takeover(10 * time.Minute).Start(); err != nil || f.state.starts != 1 {
		t.Errorf("%v, stored %d starts", err, f.state.starts)
	}
}

func TestStartsAreCountedInAProbationOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		state     storedState
		probation time.Duration
	}{
		"nothing stored": {storedState{}, time.Minute},
		"removing":       {storedState{removing: true}, time.Minute},
		"disabled":       {storedState{until: time.Now(), starts: maxStarts}, 0},
	} {
		f := newFake(t, "default")
		f.state = tc.state
		if err := f.takeover(tc.probation).Start(); err != nil || f.state != tc.state {
			t.Errorf("%s: %v, stored %+v", name, err, f.state)
		}
	}
}

func TestFirstSyncResetsStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inProbation(t, 3)
		until := f.state.until
		to := f.takeover(10 * time.Minute)
		if err := to.Start(); err != nil {
			t.Fatal(err)
		}
		_, failure := f.run(to, time.Minute)
		if want := (storedState{until: until}); failure != nil || f.state != want {
			t.Errorf("%v, stored %+v, want %+v", failure, f.state, want)
		}
		f.state.starts = 2 // of later starts
		if to.Stopped(); f.state.starts != 2 {
			t.Errorf("%d starts are stored when it stops", f.state.starts)
		}
	})
}

func TestPlannedStopIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inProbation(t, 3)
		to := f.takeover(10 * time.Minute)
		if err := to.Start(); err != nil {
			t.Fatal(err)
		}
		p := f.proxy()
		p.Ready = nil
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := to.Run(ctx, p); err != nil || f.state.starts != 4 {
			t.Errorf("%v, %d starts are stored", err, f.state.starts)
		}
		if to.Stopped(); f.state.starts != 3 {
			t.Errorf("%d starts are stored", f.state.starts)
		}
	})
}
