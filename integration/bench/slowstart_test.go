package bench

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	stdsync "sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/slowstart"
)

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
