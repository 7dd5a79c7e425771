package schedulers

import (
	"bytes"
	"log/slog"
	"slices"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/source/manifests"
)

// stepped are Services with slow starts: of a scheduler each, or with affinity.
var stepped = []string{"rr", "random", "affinity"}

// A steppedNode programs a node from a folder. The test is the follower that takes steps.
type steppedNode struct {
	*testing.T
	committed chan sync.Committed
	overlays  chan []model.Overlay
}

// Follow implements [sync.Follower].
func (s *steppedNode) Follow(c sync.Committed) { s.committed <- c }

// await waits until pools are committed whose last endpoint is at a step, in both families, and takes
// it to the next one.
func (s *steppedNode) await(pools int, step uint8) map[model.Match]*model.Pool {
	s.Helper()
	found := map[model.Match]*model.Pool{}
	for patience := time.After(time.Minute); len(found) < pools; {
		select {
		case c := <-s.committed:
			for i := range c.Set {
				if f := &c.Set[i]; f.IsClusterIP() && len(f.Pool.ClusterSteps.Eighths) == 4 && f.Pool.ClusterSteps.Eighths[3] == step {
					found[f.Match] = f.Pool
				}
			}
		case <-patience:
			s.Fatalf("%d of %d pools are at step %d", len(found), pools, step)
		}
	}
	return found
}

// TestConnectionsFollowSteps adds an endpoint to three, with each scheduler that has slow starts. It
// counts connections at each step: rr gives each slot one of them, so shares are exact.
func TestConnectionsFollowSteps(t *testing.T) {
	t.Parallel()
	l, servers := daemon.NewLab(t, 2, 2)
	folder := daemon.NewFolder(t, l)
	put := func(endpoints int) {
		var services []daemon.Service
		for k, scheduler := range stepped {
			s := daemon.Service{
				Name: scheduler, Number: 1 + k, Endpoints: servers[:endpoints], SlowStart: "1m", Scheduler: scheduler,
			}
			if scheduler == "affinity" {
				s.Scheduler, s.Affinity = "", time.Hour
			}
			services = append(services, s)
		}
		folder.Put("web", services...)
	}
	put(3)
	s := &steppedNode{t, make(chan sync.Committed, 100), make(chan []model.Overlay)}
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	loop := sync.NewLoop(sync.Config{
		NodeName: l.Node.Name, Options: model.Options{MasqueradeAll: true}, Overlays: s.overlays, Followers: []sync.Follower{s},
		Rules: nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark},
	}, manifests.New(folder.Dir(), l.Node.Name, log), labtest.Kernel(t, l.Node.Host), log)
	done := make(chan error, 1)
	go func() { done <- loop.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Errorf("%v; the log:\n%s", err, &text)
		}
	})
	<-loop.Ready()
	put(4)
	pools, newest := len(stepped)*len(daemon.Transports()), servers[3].Name
	flows := flowsOf(25, 4)
	for step := uint8(1); step <= model.FullStep; step *= 2 {
		committed := s.await(pools, step)
		for _, w := range daemon.Transports() {
			if testing.Short() && int(w.Family) != int(w.Protocol)%2 {
				continue
			}
			for k, scheduler := range stepped {
				to := daemon.Service{Number: 1 + k}.AddrPort(l.Node, w.Family, model.KindClusterIP, 0)
				pool := committed[model.Match{Addr: to.Addr(), Port: to.Port(), Family: w.Family, Protocol: w.Protocol}]
				if scheduler == "affinity" && step > 1 {
					continue // its clients are known
				}
				counts := tally(askBy(t, l, w, to, flows))
				if scheduler != "rr" {
					shares := map[string]float64{}
					for _, h := range servers {
						shares[h.Name] = model.FullStep
					}
					shares[newest] = float64(step)
					even(t, counts, shares)
					continue
				}
				want := float64(len(flows)) * float64(step) / float64(3*model.FullStep+step)
				if got := float64(counts[newest]); len(flows)%pool.Slots(false) != 0 || got < want*0.9 || got > want*1.1 {
					t.Errorf("step %d over %s: %d of %v in %d slots, want %.1f", step, w, counts[newest], counts, pool.Slots(false), want)
				}
			}
		}
		var next []model.Overlay
		for key, p := range committed {
			steps := p.List(false)
			steps.Steps.Eighths = append(slices.Clone(steps.Steps.Eighths[:3]), min(2*step, model.FullStep))
			next = append(next, model.SlowStart{Key: key, Cluster: steps})
		}
		s.overlays <- next
	}
}
