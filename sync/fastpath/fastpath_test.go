package fastpath

import (
	"context"
	"fmt"
	"log/slog"
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
	looks := make(chan struct{}, 100)
	const period = time.Millisecond
	f := New(Config{
		Obstacle:       func() string { looks <- struct{}{}; return "an obstacle" },
		ForeignChanges: func() (uint32, error) { return changes.Load(), nil },
		CheckPeriod:    period,
		Log:            slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Run(ctx) }()
	for range 3 {
		<-looks
		quiet := time.After(500 * period) // interfaces of the machine may change meanwhile
		n := 0
		for waiting := true; waiting; {
			select {
			case <-looks:
				n++
			case <-quiet:
				waiting = false
			}
		}
		if n > 20 {
			t.Errorf("%d looks without a change", n)
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

// TestNewInterfacesAreNoReasonToLook has pods that start between two checks.
func TestNewInterfacesAreNoReasonToLook(t *testing.T) {
	if _, err := flowtable.List(0); err != nil {
		t.Skip(err)
	}
	looks := 0
	f := New(Config{
		Obstacle:       func() string { looks++; return "an obstacle" },
		ForeignChanges: func() (uint32, error) { return 7, nil },
		Log:            slog.New(slog.DiscardHandler),
	})
	names := []string{"eth0"}
	f.setDevices(names)
	if looks != 1 || f.mustLook() {
		t.Errorf("looked %d times at first, want once", looks)
	}
	for i := range 5 {
		names = append(names, fmt.Sprintf("veth%d", i))
		f.setDevices(slices.Clone(names))
	}
	if looks != 1 || !f.mustLook() {
		t.Errorf("looked %d times, want once more with the next check", looks)
	}
	f.reconcile(true)
	f.setDevices(names)
	if looks != 2 || f.mustLook() {
		t.Errorf("looked %d times, want twice", looks)
	}
}
