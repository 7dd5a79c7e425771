package fastpath

import (
	"context"
	"log/slog"
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
