package soak

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"kube-vmap/integration/clients"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

var (
	duration = flag.Duration("soak", 6*time.Second, "how long Services change")
	seed     = flag.Uint64("seed", 1, "of the changes")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(daemon.Main(m))
}

const (
	// stay is the number of Services that stay as they are, change of those that
	// change.
	stay, change = 50, 3
	// mostPorts is the most ports of a Service.
	mostPorts = 3
)

// start builds a lab, programs the Services that stay, and lets clients ask them.
func start(t *testing.T) (f *daemon.Folder, d *daemon.Daemon, load *clients.Clients, servers []*lab.Host) {
	t.Helper()
	t.Parallel()
	l := labtest.New(t, lab.Options{Pods: 6, RemotePods: 3})
	daemon.RouteServices(t, l, l.Node)
	servers = daemon.Serve(t, mostPorts, append(l.Pods[:6:6], l.RemotePods...)...)
	f = daemon.NewFolder(t, l)
	still := stillServices(servers)
	f.Put("still", still...)
	d = daemon.Start(t, l.Node, f, "--passive-health-checks=avoid") // a warning ends the test
	load = clients.Start(t, l, still, clients.Options{Pod: l.Pods[0], Pace: 8 * time.Millisecond})
	return f, d, load, servers
}

func TestChangesToOneServiceDisturbNoOther(t *testing.T) {
	random := rand.New(rand.NewPCG(*seed, 0))
	f, d, load, servers := start(t)
	changes := 0
	for end := time.Now().Add(*duration); time.Now().Before(end); changes += change {
		d.After(func() { f.Put("changing", changing(random, servers)...) })
	}
	load.Stop(t, 100)
	perSecond := float64(changes) / duration.Seconds()
	t.Logf("%d changes, %.0f a second", changes, perSecond)
}

// schedulers are the values of the annotation.
var schedulers = []string{"", "random", "rr", "sh", "mh", "lc"}

// weights are weights of endpoints that change.
var weights = []int{0, 1, 1, 2, 5}

// sources are source ranges of both families. The first ones allow all clients.
var sources = [][]string{
	{"10.0.0.0/8", "192.0.2.0/25", "192.0.2.128/25", "fd00:10::/32", "2001:db8:2::/48"},
	{"192.0.2.0/24", "2001:db8:2::/64"},
	{"203.0.113.0/24", "198.18.0.0/15", "2001:db8:ffff::/48"},
}

// stillServices returns Services of all sorts which all clients can reach.
func stillServices(servers []*lab.Host) []daemon.Service {
	sorts := [][]model.Kind{nil, {model.KindNodePort}, {model.KindLoadBalancerIP}, {model.KindExternalIP}, daemon.Kinds}
	var all []daemon.Service
	for n := range stay {
		s := daemon.Service{
			Name: "still-" + string(rune('a'+n%26)) + string(rune('a'+n/26)), Number: n + 1,
			Kinds: sorts[n%len(sorts)],
			// One on the node, for local policies, and two others.
			Endpoints: []*lab.Host{servers[n%6], servers[6+n%3], servers[(n/6+n+1)%6]},
			Scheduler: schedulers[n/5%len(schedulers)],
		}
		if s.Has(model.KindNodePort) || s.Has(model.KindLoadBalancerIP) || s.Has(model.KindExternalIP) {
			s.LocalOutside = n%3 == 0
		}
		s.LocalInside = n%7 == 0
		if n%4 == 0 {
			s.Affinity = time.Hour
		}
		if n%7 < 3 && n < 30 { // the later ones can have the same endpoint twice
			s.Weights = [][]int{{1, 3, 0}, {2, 0, 1}}[n%2] // the first one is on the node
		}
		if s.Has(model.KindLoadBalancerIP) && n%2 == 0 {
			s.Sources = sources[0]
		}
		all = append(all, s)
	}
	return all
}

// changing returns random Services for those that change. Now and then one is
// missing.
func changing(random *rand.Rand, servers []*lab.Host) []daemon.Service {
	generate := daemon.Random{
		Rand: random, Servers: servers, Ports: mostPorts, Times: 2, Schedulers: schedulers, Sources: sources,
		Affinities: []time.Duration{0, 0, time.Second, time.Minute, time.Hour}, Weights: weights,
	}
	var all []daemon.Service
	for n := range change {
		if random.IntN(10) > 0 {
			all = append(all, generate.Service("changing-"+string(rune('a'+n)), stay+1+n))
		}
	}
	return all
}
