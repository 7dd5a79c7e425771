package soak

import (
	"fmt"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Maps that outgrow their size are replaced in one transaction, while packets are
// looked up in them.
func TestMapsGrowUnderTrafficWithoutLoss(t *testing.T) {
	f, d, load, servers := start(t)
	// 50 Services of 3 ports take 150 of 384 elements. This fills the maps to twice
	// their first size and to four times, empties them, and fills them in one step.
	for _, n := range []int{100, 300, 600, 0, 600} {
		d.After(func() { f.Put("more", more(n, servers)...) })
	}
	load.Stop(t, 10)
}

// more returns n Services with addresses of all kinds except node ports, of which
// there are not enough.
func more(n int, servers []*lab.Host) []daemon.Service {
	var all []daemon.Service
	for i := range n {
		all = append(all, daemon.Service{
			Name: fmt.Sprintf("more-%d", i), Number: stay + 1 + i,
			Kinds:     []model.Kind{model.KindExternalIP, model.KindLoadBalancerIP},
			Endpoints: []*lab.Host{servers[i%len(servers)], servers[(i+1)%len(servers)]},
		})
	}
	return all
}
