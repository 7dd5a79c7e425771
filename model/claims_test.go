package model

import (
	"net/netip"
	"slices"
	"testing"
)

// TestClaimBehindNodePortIsReported has a Service whose node port serves its load balancer address,
// which is one of the node, until another Service gets that as its ClusterIP. The node may lose the
// address then.
func TestClaimBehindNodePortIsReported(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		for _, stays := range []bool{true, false} {
			m := NewServiceMap(Options{}, thisNode)
			shared := clusterIP(f, 9)
			m.SetNodeAddrs([]netip.Addr{shared})
			m.SetService(Service{
				Name: ServiceName{"a", "first"}, ClusterIPs: []netip.Addr{clusterIP(f, 1)}, LoadBalancerIPs: []netip.Addr{shared},
				Ports: []ServicePort{{Protocol: p, Port: 80, NodePort: 80}},
			})
			if c := m.Changes().Conflicts; len(c) > 0 {
				t.Errorf("a Service port conflicts with itself: %v", c)
			}
			m.SetService(Service{
				Name: ServiceName{"a", "second"}, ClusterIPs: []netip.Addr{shared}, Ports: []ServicePort{{Protocol: p, Port: 80}},
			})
			if !stays {
				m.SetNodeAddrs(nil)
			}
			if c := m.Changes().Conflicts; len(c) != 1 || c[0].Loser.Name != "first" || !slices.Equal(c, m.Conflicts()) {
				t.Errorf("the node has the address %t: conflicts %v, in total %v", stays, c, m.Conflicts())
			}
		}
	})
}
