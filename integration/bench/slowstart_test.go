package bench

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/slowstart"
)

// slowStart is the time of the mark. The benchmark's own slow start is shorter: steps cost as much as
// then, and more commits.
const slowStart, shortSlowStart = time.Minute, 3 * time.Second

// BenchmarkSlowStart has an endpoint join each of 1,000 Services at the same time, and measures what the
// process takes until all slots are as without a slow start.
func BenchmarkSlowStart(b *testing.B) {
	labtest.Require(b)
	s := newSandbox(b)
	defer s.close()
	c := newCluster(clusterIP, size{1_000, 3})
	n := &startingNode{bursts: make(chan []sync.Event), ended: make(chan struct{})}
	burst := func(endpoints int) (out []sync.Event) {
		for i := range c.size.services {
			service := c.service(i)
			service.SlowStart = shortSlowStart
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
	n.bursts <- burst(c.endpoints)
	<-loop.Ready()
	before := cpuOfProcess(b)
	n.bursts <- burst(c.endpoints + 1)
	<-n.ended
	used := cpuOfProcess(b) - before
	cancel()
	must(b, group.Wait())
	report.Line(b, "1000-endpoints", share(used, slowStart, 1), report.Number("commits", n.commits, 0))
}

// A startingNode is a source and a follower that counts pools in which endpoints start.
type startingNode struct {
	bursts   chan []sync.Event
	starting map[model.Match]bool
	commits  int
	ended    chan struct{}
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
	if n.starting == nil {
		n.starting = map[model.Match]bool{} // of the first commit, in which none starts
		return
	}
	n.commits++
	before := len(n.starting)
	for i := range c.Set {
		if delete(n.starting, c.Set[i].Match); c.Set[i].Pool.ClusterSteps.Eighths != nil {
			n.starting[c.Set[i].Match] = true
		}
	}
	if before > 0 && len(n.starting) == 0 {
		close(n.ended)
	}
}
