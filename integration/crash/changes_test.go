package crash

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// newChanging starts the proxy with Services that stay, and some that choose by least connections
// beside them, and lets clients ask them all.
func newChanging(t *testing.T) (s *stage, d *daemon.Daemon, stop func(least int)) {
	t.Helper()
	s = newStage(t, 0, "--passive-health-checks=avoid") // a warning ends the test
	for n := range 3 {
		s.stable = append(s.stable, daemon.Service{
			Name: fmt.Sprintf("least-%d", n), Number: stable + 1 + n, Endpoints: s.servers[n : n+3],
			Kinds: daemon.Kinds, Scheduler: "lc",
		})
	}
	s.folder.Put("stable", s.stable...)
	d = s.start(t)
	load := s.startClients(t)
	return s, d, func(least int) { load.Stop(t, least) }
}

// TestChangesToOneServiceDisturbNoOther changes three Services at random, many times a second.
// Now and then one is missing.
func TestChangesToOneServiceDisturbNoOther(t *testing.T) {
	s, d, stop := newChanging(t)
	s.random.Schedulers = append(slices.Clone(schedulers), "lc")
	changes := 0
	for end := time.Now().Add(*duration); time.Now().Before(end); changes++ {
		var all []daemon.Service
		for n := range 3 {
			if s.random.IntN(10) > 0 {
				all = append(all, s.random.Service(fmt.Sprintf("changing-%d", n), len(s.stable)+1+n))
			}
		}
		d.After(func() { s.folder.Put("changing", all...) })
	}
	stop(100)
	t.Logf("%d changes in %s", changes, duration)
}

// TestMapsGrowUnderTrafficWithoutLoss replaces maps that outgrow their size in one transaction,
// while packets are looked up in them.
func TestMapsGrowUnderTrafficWithoutLoss(t *testing.T) {
	s, d, stop := newChanging(t)
	// 28 Services of 3 ports take 84 of 384 elements. This fills the maps to twice
	// their first size and to four times, empties them, and fills them in one step.
	for _, n := range []int{100, 300, 600, 0, 600} {
		d.After(func() { s.folder.Put("more", s.more(n)...) })
	}
	stop(10)
}

// more returns n Services with addresses of all kinds except node ports, of which
// there are not enough.
func (s *stage) more(n int) (all []daemon.Service) {
	for i := range n {
		all = append(all, daemon.Service{
			Name: fmt.Sprintf("more-%d", i), Number: len(s.stable) + 1 + i,
			Kinds:     []model.Kind{model.KindExternalIP, model.KindLoadBalancerIP},
			Endpoints: []*lab.Host{s.servers[i%len(s.servers)], s.servers[(i+1)%len(s.servers)]},
		})
	}
	return all
}
