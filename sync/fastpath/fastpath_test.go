package fastpath

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"kube-vmap/nft/kernel/flowtable"
)

// TestObstaclesAreOnlySoughtAfterChanges has an obstacle, so that nothing is added.
func TestObstaclesAreOnlySoughtAfterChanges(t *testing.T) {
	if _, err := flowtable.List(0); err != nil {
		t.Skip(err)
	}
	var changes atomic.Uint32
	searches := make(chan struct{}, 100)
	const period = time.Millisecond
	f := New(Config{
		Obstacle:       func() string { searches <- struct{}{}; return "an obstacle" },
		ForeignChanges: func() (uint32, error) { return changes.Load(), nil },
		CheckPeriod:    period,
		Log:            slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Run(ctx) }()
	for range 3 {
		<-searches
		quiet := time.After(500 * period) // interfaces of the machine may change meanwhile
		n := 0
		for waiting := true; waiting; {
			select {
			case <-searches:
				n++
			case <-quiet:
				waiting = false
			}
		}
		if n > 20 {
			t.Errorf("%d searches without a change", n)
		}
		changes.Add(1)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s := f.State(); s.On {
		t.Errorf("%+v", s)
	}
}

// TestNewInterfacesAreNoReasonToSearch has pods that start between two checks.
func TestNewInterfacesAreNoReasonToSearch(t *testing.T) {
	if _, err := flowtable.List(0); err != nil {
		t.Skip(err)
	}
	searches := 0
	f := New(Config{
		Obstacle:       func() string { searches++; return "an obstacle" },
		ForeignChanges: func() (uint32, error) { return 7, nil },
		Log:            slog.New(slog.DiscardHandler),
	})
	names := []string{"eth0"}
	f.setDevices(names)
	if searches != 1 || f.mustSearch() {
		t.Errorf("%d searches at first, want one", searches)
	}
	for i := range 5 {
		names = append(names, fmt.Sprintf("veth%d", i))
		f.setDevices(slices.Clone(names))
	}
	if searches != 1 || !f.mustSearch() {
		t.Errorf("%d searches, want one more with the next check", searches)
	}
	f.reconcile(true)
	f.setDevices(names)
	if searches != 2 || f.mustSearch() {
		t.Errorf("%d searches, want two", searches)
	}
}

// TestNewInterfacesAreNoReasonToSearchAfterErrors has a network namespace that does not exist.
func TestNewInterfacesAreNoReasonToSearchAfterErrors(t *testing.T) {
	searches := 0
	f := New(Config{
		NetNS:          math.MaxInt32,
		Obstacle:       func() string { searches++; return "" },
		ForeignChanges: func() (uint32, error) { return 7, nil },
		Log:            slog.New(slog.DiscardHandler),
	})
	for _, names := range [][]string{{"eth0"}, {"eth0", "veth0"}, {"eth0", "veth1"}} {
		f.setDevices(names)
	}
	if searches != 1 || f.State().On || !f.mustSearch() {
		t.Errorf("%d searches, %+v, want one, and another with the next check", searches, f.State())
	}
}
