package main

import (
	"errors"
	"strings"
	"testing"
)

func TestWithoutTimeCutsTimeAndLevel(t *testing.T) {
	for line, want := range map[string]string{
		"time=2026-11-20T13:40:40Z level=INFO msg=applied services=2":   "applied services=2",
		`time=2026-11-20T13:40:40Z level=DEBUG msg="nothing to change"`: "nothing to change",
	} {
		if got := withoutTime(line); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCheckRejectsUnevenAnswers(t *testing.T) {
	pods := []string{"pod-1", "pod-2", "pod-3"}
	for _, c := range []struct {
		counts tally
		ok     bool
	}{
		{tally{"pod-1": 80, "pod-2": 80, "pod-3": 80}, true},
		{tally{"pod-1": 60, "pod-2": 80, "pod-3": 100}, true},
		{tally{"pod-1": 120, "pod-2": 120}, false},
		{tally{"pod-1": 110, "pod-2": 110, "pod-3": 20}, false},
		{tally{"pod-1": 79, "pod-2": 80, "pod-3": 80, "pod-4": 1}, false},
	} {
		if err := c.counts.check(pods); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.counts, err)
		}
	}
}

// full is a writer that accepts that many bytes.
type full int

var errFull = errors.New("no space left")

func (f *full) Write(b []byte) (int, error) {
	if *f < full(len(b)) {
		return 0, errFull
	}
	*f -= full(len(b))
	return len(b), nil
}

func TestOutputKeepsTheFirstWriteError(t *testing.T) {
	space := full(10)
	o := &output{w: &space}
	for range 3 {
		o.print("%s", strings.Repeat("x", 6))
	}
	if !errors.Is(o.err, errFull) {
		t.Errorf("got %v", o.err)
	}
}
