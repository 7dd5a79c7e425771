package fastpath

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"testing"

	"kube-vmap/nft/kernel/flowtable"
)

// TestNewInterfacesAreNoReasonToSearch has pods that start between two searches, with and without
// errors: pods of a network namespace that does not exist.
func TestNewInterfacesAreNoReasonToSearch(t *testing.T) {
	if _, err := flowtable.List(0); err != nil {
		t.Skip(err)
	}
	for _, netNS := range []int{0, math.MaxInt32} {
		searches := 0
		f := New(Config{
			NetNS:    netNS,
			Obstacle: func() string { searches++; return "an obstacle" },
			Log:      slog.New(slog.DiscardHandler),
		})
		names := []string{"eth0"}
		for i := range 5 {
			f.setDevices(slices.Clone(names))
			names = append(names, fmt.Sprintf("veth%d", i))
		}
		if s := f.State(); searches != 1 || s.On || s.Reason == "" {
			t.Errorf("%d searches, %+v, want one", searches, s)
		}
	}
}

// TestItIsOffWhenRunHasEnded has a process that stays, as after a failed take-over.
func TestItIsOffWhenRunHasEnded(t *testing.T) {
	f := New(Config{Log: slog.New(slog.DiscardHandler)})
	f.state.Store(&State{On: true, Devices: 2})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if s := f.State(); s.On || s.Reason == "" || s.Devices != 0 {
		t.Errorf("%+v", s)
	}
}
