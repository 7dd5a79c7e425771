package bench

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/leastconn"
)

// BenchmarkLeastConnections measures how much of a processor least connections takes beside many
// tracked connections to Services: three observations, with the pause after each.
func BenchmarkLeastConnections(b *testing.B) {
	labtest.Require(b)
	s := newSandbox(b)
	defer s.close()
	track(b, s, trackedEntries, true)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	tracking := conntrack.New(conntrack.Config{NetNS: s.host.FD()})
	k := &measuredTracking{Tracking: tracking, b: b, cancel: cancel}
	shares := make(chan []model.Overlay, 2*observations)
	l := leastconn.New(leastconn.Config{Tracking: k, Overlays: shares, Log: slog.New(slog.DiscardHandler)})
	l.Follow(trackedPool(model.Pool{Scheduler: model.SchedulerLeastConnections}))
	must(b, errors.Join(l.Run(ctx), k.err))
	used, elapsed := k.cpu[observations]-k.cpu[0], k.began[observations].Sub(k.began[0])
	report.Line(b, "translated", share(used, elapsed, 2),
		report.Number("us-per-connection", used.Seconds()*1e6/observations/trackedEntries, 0))
}

const observations = 3

// measuredTracking notes the time and processor time at the start of each observation, and
// cancels after the last one.
type measuredTracking struct {
	leastconn.Tracking
	b      *testing.B
	cancel context.CancelFunc
	began  []time.Time
	cpu    []time.Duration
	err    error
}

// EachTranslated implements [leastconn.Tracking].
func (k *measuredTracking) EachTranslated(begin func(), fn func(conntrack.Entry)) error {
	k.began, k.cpu = append(k.began, time.Now()), append(k.cpu, cpuOfProcess(k.b))
	if len(k.began) > observations {
		k.cancel()
		return nil
	}
	err := k.Tracking.EachTranslated(begin, fn)
	k.err = errors.Join(k.err, err)
	return err
}

// share returns a figure: the part of a processor that was used.
func share(used, elapsed time.Duration, mostPercent float64) report.Figure {
	return report.Number("%-of-processor", 100*used.Seconds()/elapsed.Seconds(), mostPercent)
}

// cpuOfProcess returns the processor time of all threads of this process so far.
func cpuOfProcess(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// trackedPool returns the commit of a pool with all tracked endpoints.
func trackedPool(p model.Pool) sync.Committed {
	p.Key = model.Match{Addr: trackedService.Addr(), Protocol: model.TCP, Port: trackedService.Port()}
	for n := range trackedEndpoints {
		p.Cluster = append(p.Cluster, trackedEndpoint(n))
	}
	return sync.Committed{Full: true, Set: []model.Frontend{{Match: p.Key, Pool: &p}}}
}
