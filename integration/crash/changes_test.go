package crash

import (
	"fmt"
	"math/rand/v2"
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

const (
	// stable is how many Services do not change, churn how many do.
	stable, churn = 25, 20
	// local is how many of the servers run on the proxy's node.
	local = 4
	// mostPorts is the most ports of a Service.
	mostPorts = 2
)

// sources are source ranges of both families. The first admit all clients of the tests.
var sources = [][]string{
	{"10.0.0.0/8", "192.0.2.0/25", "192.0.2.128/25", "fd00:10::/32", "2001:db8:2::/48"},
	{"192.0.2.0/24", "2001:db8:2::/64"},
	{"203.0.113.0/24", "198.18.0.0/15", "2001:db8:ffff::/48"},
}

// schedulers are values of the annotation. With "lc", in [TestChangesToOneServiceDisturbNoOther],
// the tables also depend on connections.
var schedulers = []string{"", "random", "rr", "sh", "mh"}

// stableServices returns Services of all sorts which all clients can reach.
func stableServices(servers []*lab.Host) []daemon.Service {
	sorts := [][]model.Kind{nil, {model.KindNodePort}, {model.KindLoadBalancerIP}, {model.KindExternalIP}, daemon.Kinds}
	var all []daemon.Service
	for n := range stable {
		s := daemon.Service{
			Name: fmt.Sprintf("stable-%d", n), Number: n + 1, Kinds: sorts[n%len(sorts)], Scheduler: schedulers[n/5],
			// One on the node, for local policies, and two others.
			Endpoints:    []*lab.Host{servers[n%local], servers[local+n%2], servers[(n+1+n/local%3)%local]},
			LocalOutside: n%5 > 0 && n%3 == 0, LocalInside: n%7 == 0,
		}
		if n%4 == 0 {
			s.Affinity = time.Hour
		}
		if n%7 < 3 {
			s.Weights = [][]int{{1, 3, 0}, {2, 0, 1}}[n%2] // the first one is on the node
		}
		if n%6 == 5 {
			s.Priorities = []int{0, 1, 0}
		}
		if n%2 == 1 {
			s.Hold = time.Minute
		}
		if s.Has(model.KindLoadBalancerIP) && n%2 == 0 {
			s.Sources = sources[0]
		}
		all = append(all, s)
	}
	return all
}

// churning returns random Services; sometimes one is missing. Of those before, one in
// changed is replaced.
func churning(random daemon.Random, before []daemon.Service, changed int) []daemon.Service {
	all := make([]daemon.Service, 0, churn)
	for n := range churn {
		name := fmt.Sprintf("churn-%d", n)
		if len(before) > 0 && random.IntN(changed) != 0 {
			i := slices.IndexFunc(before, func(s daemon.Service) bool { return s.Name == name })
			if i >= 0 {
				all = append(all, before[i])
			}
			continue
		}
		if random.IntN(8) == 0 {
			continue
		}
		s := random.Service(name, stable+1+n)
		if n == 0 && random.IntN(3) == 0 {
			s.Scheduler = "mh" // with 251 slots in each family
		}
		all = append(all, s)
	}
	s := heldService()
	s.Endpoints = random.Servers[:random.IntN(2)]
	return append(all, s)
}

// heldService returns the Service whose connections wait for its endpoint, in versions without it.
func heldService() daemon.Service {
	return daemon.Service{Name: "held", Number: stable + churn + 1, Kinds: daemon.Kinds, Hold: 10 * time.Minute}
}

// newRandom returns a generator of Services that change.
func newRandom(random *rand.Rand, servers []*lab.Host) daemon.Random {
	return daemon.Random{
		Rand: random, Servers: servers, Ports: mostPorts, Times: 3, Schedulers: schedulers[:4], Sources: sources,
		Affinities: []time.Duration{0, 0, 0, time.Second, time.Minute, time.Hour}, Weights: []int{0, 1, 1, 2, 5},
		Holds: []time.Duration{0, time.Minute}, Priorities: []int{0, 0, 1, 9},
	}
}
