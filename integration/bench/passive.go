package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/passivehealth"
)

// waitingEntries are the connections without an answer, when there are some.
const waitingEntries = 1000

// passive measures how much of a processor passive health checks take beside many tracked
// connections, of which none waits for an answer, or many to an endpoint that does not answer.
func (b *bench) passive() error {
	for _, tt := range []struct {
		waiting int
		most    float64
	}{{0, 0.001}, {waitingEntries, 0.01}} {
		if err := inSandbox(func(box *sandbox) error { return b.passivePart(box, tt.waiting, tt.most) }); err != nil {
			return err
		}
	}
	return nil
}

// passivePart measures the checks for a time, after that of their first readings.
func (b *bench) passivePart(box *sandbox, waiting int, most float64) error {
	entries, warmUp, measured := trackedEntries, 5*time.Second, 100*time.Second
	if b.quick {
		entries, measured = trackedEntries/10, 20*time.Second
	}
	if err := track(box.raw, entries, 1, true); err != nil {
		return err
	}
	if err := track(box.raw, waiting, 1, false); err != nil {
		return err
	}
	debug.FreeOSMemory() // or else the runtime does so meanwhile
	found := make(chan []model.UnresponsiveEndpoints, 2*len(model.Protocols)*trackedEndpoints)
	t := passivehealth.New(passivehealth.Config{
		Tracking: conntrack.New(conntrack.Config{NetNS: box.host.FD()}), Counter: &resentPackets{kernel: box.kernel, moves: waiting > 0},
		Ask: func(ctx context.Context, _ netip.AddrPort, wait time.Duration) error {
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			<-ctx.Done()
			return context.DeadlineExceeded
		},
		EndpointsByNode: func(context.Context, []netip.Addr) (map[string][]netip.Addr, error) { return nil, nil },
		Unresponsive:    found, Log: slog.New(slog.DiscardHandler),
	})
	pool := &model.Pool{PassiveChecks: model.PassiveChecksReport} // the default
	if waiting > 0 {
		pool.PassiveChecks = model.PassiveChecksAvoid
	}
	pool.Key = model.Match{Addr: trackedService.Addr(), Protocol: model.TCP, Port: trackedService.Port()}
	for n := range trackedEndpoints {
		pool.Cluster = append(pool.Cluster, trackedEndpoint(n))
	}
	t.Follow(sync.Committed{Full: true, Set: []model.Frontend{{Match: pool.Key, Pool: pool}}})
	idle := cpuOfProcess()
	<-time.After(measured / 2) // what the process takes without them
	floor := 2 * (cpuOfProcess() - idle)
	ctx, cancel := context.WithTimeout(context.Background(), warmUp+measured)
	defer cancel()
	var before time.Duration
	time.AfterFunc(warmUp, func() { before = cpuOfProcess() })
	if err := t.Run(ctx); err != nil {
		return err
	}
	used := cpuOfProcess() - before
	share := max(used-floor, 0).Seconds() / measured.Seconds()
	if notAnswering, _, _ := t.Totals(); (notAnswering > 0) != (waiting > 0) {
		return fmt.Errorf("%d endpoints do not answer with %d connections that wait", notAnswering, waiting)
	}
	what := fmt.Sprintf("passive health checks, %d of %d connections wait: part of a processor", waiting, entries)
	b.Mark(share < most, what, percent(share), "the process without them", "below "+percent(most))
	return nil
}

// resentPackets is the counter of first packets that were sent again. It moves at every reading
// if connections wait.
type resentPackets struct {
	kernel passivehealth.Counter
	moves  bool
	n      uint64
}

func (r *resentPackets) Unanswered() (uint64, error) {
	if r.moves {
		r.n++
	}
	n, err := r.kernel.Unanswered()
	return n + r.n, err
}
