package bench

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	stdsync "sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/leastconn"
	"kube-vmap/sync/follow/slowstart"
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

// slowStart is the time of the mark. The benchmark's own slow start is shorter: its steps cost the same.
// After twice that time all slots are as without it.
const slowStart, shortSlowStart = time.Minute, 3 * time.Second

// BenchmarkSlowStart has an endpoint join each of 1,000 Services at the same time, first without slow
// starts, and measures what they take in addition.
func BenchmarkSlowStart(b *testing.B) {
	labtest.Require(b)
	s := newSandbox(b)
	defer s.close()
	c := newCluster(clusterIP, size{1_000, 3})
	n := &startingNode{
		bursts: make(chan []sync.Event), pools: map[model.Match]*model.Pool{}, signal: make(chan struct{}, 1),
	}
	burst := func(endpoints int, lasts time.Duration) (out []sync.Event) {
		for i := range c.size.services {
			service := c.service(i)
			service.SlowStart = lasts
			out = append(out, sync.SetService{Service: service}, sync.SetSlice{Slice: c.slice(i, endpoints)})
		}
		return out
	}
	overlays := make(chan []model.Overlay)
	starts := slowstart.New(overlays, nil)
	loop := sync.NewLoop(sync.Config{
		NodeName: thisNode, Rules: config, Overlays: overlays, Followers: []sync.Follower{starts, n},
	}, n, s.kernel, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(b.Context())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return starts.Run(ctx) })
	group.Go(func() error { return loop.Run(ctx) })
	n.bursts <- burst(c.endpoints, 0)
	<-loop.Ready()
	var used [2]time.Duration
	for i, lasts := range [...]time.Duration{0, shortSlowStart} {
		n.bursts <- burst(c.endpoints, lasts)
		n.await(c.endpoints)
		before := cpuOfProcess(b)
		n.bursts <- burst(c.endpoints+1, lasts)
		n.await(c.endpoints + 1)
		used[i] = cpuOfProcess(b) - before
	}
	cancel()
	must(b, group.Wait())
	report.Line(b, "1000-endpoints", share(used[1]-used[0], 2*slowStart, 1))
}

// A startingNode is a source, and a follower that knows which pools have how many endpoints.
type startingNode struct {
	bursts chan []sync.Event
	mu     stdsync.Mutex
	pools  map[model.Match]*model.Pool
	signal chan struct{}
}

// Run implements [sync.Source].
func (n *startingNode) Run(ctx context.Context, out chan<- []sync.Event) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case burst := <-n.bursts:
			sync.Send(ctx, out, burst)
		}
	}
}

// Follow implements [sync.Follower].
func (n *startingNode) Follow(c sync.Committed) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range c.Set {
		n.pools[c.Set[i].Match] = c.Set[i].Pool
	}
	select {
	case n.signal <- struct{}{}:
	default: // signaled already
	}
}

// await waits until every pool has so many endpoints, and none starts.
func (n *startingNode) await(endpoints int) {
	for range n.signal {
		n.mu.Lock()
		differs := func(p *model.Pool) bool { return len(p.Cluster) != endpoints || p.ClusterSteps.Eighths != nil }
		done := !slices.ContainsFunc(slices.Collect(maps.Values(n.pools)), differs)
		n.mu.Unlock()
		if done {
			return
		}
	}
}
