package bench

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync/passivehealth"
)

// BenchmarkPassive measures how much of a processor passive health checks take beside many tracked
// connections, of which none waits for an answer, or many to endpoints that do not answer.
func BenchmarkPassive(b *testing.B) {
	labtest.Require(b)
	for _, c := range []struct {
		waiting     int
		checks      model.PassiveChecks
		mostPercent float64
	}{{0, model.PassiveChecksReport, 0.1}, {1000, model.PassiveChecksAvoid, 1}} {
		s := newSandbox(b)
		track(b, s, trackedEntries, true)
		track(b, s, c.waiting, false)
		t := passivehealth.New(passivehealth.Config{
			Tracking: conntrack.New(conntrack.Config{NetNS: s.host.FD()}),
			Counter:  &resentPackets{s.kernel, uint64(min(c.waiting, 1)), 0},
			Ask: func(ctx context.Context, _ netip.AddrPort, wait time.Duration) error {
				ctx, cancel := context.WithTimeout(ctx, wait)
				defer cancel()
				<-ctx.Done()
				return context.DeadlineExceeded
			},
			EndpointsByNode: func(context.Context, []netip.Addr) (map[string][]netip.Addr, error) { return nil, nil },
			Unresponsive:    make(chan []model.UnresponsiveEndpoints, 2*len(model.Protocols)*trackedEndpoints),
			Log:             slog.New(slog.DiscardHandler),
		})
		t.Follow(trackedPool(model.Pool{PassiveChecks: c.checks}))
		debug.FreeOSMemory() // or else the runtime does so meanwhile
		warmUp, measured := 5*time.Second, 100*time.Second
		if testing.Short() {
			measured = 20 * time.Second
		}
		idle := cpuOfProcess(b)
		<-time.After(measured / 2)
		without := 2 * (cpuOfProcess(b) - idle) // what the process takes without the checks
		ctx, cancel := context.WithTimeout(b.Context(), warmUp+measured)
		var before time.Duration
		time.AfterFunc(warmUp, func() { before = cpuOfProcess(b) })
		must(b, t.Run(ctx))
		used := max(cpuOfProcess(b)-before-without, 0)
		cancel()
		if notAnswering, _, _ := t.Totals(); (notAnswering > 0) != (c.waiting > 0) {
			b.Errorf("%d endpoints do not answer with %d connections that wait", notAnswering, c.waiting)
		}
		report.Line(b, strconv.Itoa(c.waiting)+"-wait", share(used, measured, c.mostPercent))
		s.close()
	}
}

// resentPackets is the counter of first packets that were sent again. It moves at every reading
// by step.
type resentPackets struct {
	kernel  passivehealth.Counter
	step, n uint64
}

// Unanswered implements [passivehealth.Counter].
func (r *resentPackets) Unanswered() (uint64, error) {
	r.n += r.step
	n, err := r.kernel.Unanswered()
	return n + r.n, err
}
