package crash

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	// stable is how many Services do not change, churn how many do.
	stable, churn = 10, 20
	// local is how many of the servers run on the proxy's node.
	local = 4
)

// sources are source ranges of both families. The first admit all clients of the tests.
var sources = [][]string{
	{"10.0.0.0/8", "192.0.2.0/24", "fd00:10::/32", "2001:db8:2::/48"},
	{"192.0.2.0/24", "2001:db8:2::/64"},
	{"203.0.113.0/24", "198.18.0.0/15", "2001:db8:ffff::/48"},
}

// stableServices returns Services of all kinds that are open to all clients.
func stableServices(servers []*lab.Host) []daemon.Service {
	both := []*lab.Host{servers[0], servers[local]}
	all := []daemon.Service{
		{Name: "plain"},
		{Name: "node-ports", Kinds: []model.Kind{model.KindNodePort}},
		{Name: "external", Kinds: []model.Kind{model.KindExternalIP}, Scheduler: "rr"},
		{Name: "balanced", Kinds: []model.Kind{model.KindLoadBalancerIP}, Sources: sources[0]},
		{Name: "everything", Kinds: daemon.Kinds, Endpoints: servers},
		{Name: "remembers", Kinds: []model.Kind{model.KindNodePort}, Affinity: time.Hour},
		{Name: "local-outside", Kinds: daemon.Kinds, LocalOutside: true},
		{Name: "local-inside", LocalInside: true, Scheduler: "sh"},
		{Name: "local-remembers", Kinds: daemon.Kinds, LocalOutside: true, LocalInside: true, Affinity: time.Hour},
		{Name: "many", Kinds: []model.Kind{model.KindLoadBalancerIP}, Endpoints: servers, Scheduler: "rr", LocalInside: true},
	}
	for i := range all {
		all[i].Number = i + 1
		if all[i].Endpoints == nil {
			all[i].Endpoints = both
		}
	}
	return all[:stable]
}

// churning returns random Services; sometimes one is missing. Of those before, one in
// changed is replaced.
func churning(random *rand.Rand, servers []*lab.Host, before []daemon.Service, changed int) []daemon.Service {
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
		s := randomService(random, servers, name, stable+1+n)
		if n == 0 && random.IntN(3) == 0 {
			s.Scheduler = "mh" // with 251 slots in each family
		}
		all = append(all, s)
	}
	return all
}

// schedulers are values of the annotation.
var schedulers = []string{"", "random", "rr", "sh"}

// randomService returns a random Service.
func randomService(random *rand.Rand, servers []*lab.Host, name string, number int) daemon.Service {
	return daemon.Random{
		Rand: random, Servers: servers, Ports: 2, Times: 3, Schedulers: schedulers, Sources: sources,
		Affinities: []time.Duration{0, 0, 0, time.Minute, time.Hour}, Weights: []int{0, 1, 1, 3},
	}.Service(name, number)
}
