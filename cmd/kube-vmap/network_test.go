package main

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/inspect/pathcheck"
	"kube-vmap/sync"
)

// TestResultsStayWhileTheLoopIsBusy has a loop that does not answer, and then ends.
func TestResultsStayWhileTheLoopIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loop := sync.NewLoop(sync.Config{}, nil, nil, slog.New(slog.DiscardHandler))
		c := newPathChecker(loop, nil, nil)
		c.results.Store(&[]pathcheck.Result{{State: pathcheck.Lost}})
		expect := func(when string, lost int, fails bool) {
			t.Helper()
			<-time.After(maxAge / 2)
			if err := c.check(t.Context()); c.count(pathcheck.Lost) != lost || (err != nil) != fails {
				t.Errorf("%s: %d lost, %v", when, c.count(pathcheck.Lost), err)
			}
		}
		expect("soon", 1, false)
		expect("late", 1, true)
		loop.Close()
		expect("after the loop has ended", 0, false)
	})
}
