package bench

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync/follow/passivehealth"
)

// BenchmarkPassive measures how much of a processor passive health checks take beside many tracked
// connections: of which none waits for a reply; many to endpoints that get unresponsive, whose clients
// are witnesses (once; what may be read at one time, a second, is most of it); or beside one client that
// sends 20 datagrams a second to a Service of 30,000 endpoints without a reply. What a probe costs is in
// sync/follow/passivehealth.BenchmarkProbe.
func BenchmarkPassive(b *testing.B) {
	labtest.Require(b)
	for _, c := range []struct {
		name        string
		waiting     int
		denied      bool
		checks      model.PassiveChecks
		mostPercent float64
	}{
		{"idle-report", 0, false, model.PassiveChecksReport, 0.1},
		{"idle-avoid", 0, false, model.PassiveChecksAvoid, 0.1},
		{"1000-wait", 1000, false, model.PassiveChecksAvoid, 2},
		{"denied", 0, true, model.PassiveChecksReport, 1},
	} {
		s := newSandbox(b)
		track(b, s, trackedEntries, true)
		track(b, s, c.waiting, false)
		var dead, resent atomic.Bool
		t := passivehealth.New(passivehealth.Config{
			Tracking: conntrack.New(conntrack.Config{NetNS: s.host.FD()}),
			Counter:  &resentPackets{Counter: s.kernel, resent: &resent},
			Probe: func(ctx context.Context, to netip.AddrPort, wait time.Duration) error {
				if !dead.Load() || to.Addr().As4()[3]%2 == 0 {
					return nil
				}
				ctx, cancel := context.WithTimeout(ctx, wait)
				defer cancel()
				<-ctx.Done()
				return context.DeadlineExceeded
			},
			Overlays: make(chan []model.Overlay, 1<<20),
			Log:      slog.New(slog.DiscardHandler),
		})
		pool := trackedPool(model.Pool{PassiveChecks: c.checks})
		stopDatagrams := func() {}
		if c.denied {
			pool.Set = append(pool.Set, deniedFrontend(c.checks))
			stopDatagrams = sendDenied(b, s)
		}
		t.Follow(pool)
		debug.FreeOSMemory() // or else the runtime does so meanwhile
		warmUp, measured := 5*time.Second, 100*time.Second
		if testing.Short() && c.waiting == 0 {
			measured = 20 * time.Second
		}
		idle := cpuOfProcess(b)
		<-time.After(measured / 2)
		without := 2 * (cpuOfProcess(b) - idle) // what the process takes without the checks
		ctx, cancel := context.WithTimeout(b.Context(), warmUp+measured)
		var before time.Duration
		time.AfterFunc(warmUp, func() {
			dead.Store(true)
			resent.Store(c.waiting > 0)
			before = cpuOfProcess(b)
		})
		must(b, t.Run(ctx))
		used := max(cpuOfProcess(b)-before-without, 0)
		cancel()
		stopDatagrams()
		if unresponsive, _, _ := t.Totals(); (unresponsive > 0) != (c.waiting > 0) {
			b.Errorf("%s: %d endpoints are unresponsive", c.name, unresponsive)
		}
		report.Line(b, c.name, share(used, measured, c.mostPercent))
		s.close()
	}
}

// resentPackets is the counter of first packets that were sent again. It moves at every reading once
// some were sent.
type resentPackets struct {
	passivehealth.Counter
	resent *atomic.Bool
	n      uint64
}

// Unanswered implements [passivehealth.Counter].
func (r *resentPackets) Unanswered() (uint64, error) {
	if r.resent.Load() {
		r.n++
	}
	n, err := r.Counter.Unanswered()
	return n + r.n, err
}
