package model

import (
	"fmt"
	"net/netip"
	"testing"
)

// TestManyClaimsOfOneAddressAreCheap counts allocations. To compare each claim with each
// other would take millions.
func TestManyClaimsOfOneAddressAreCheap(t *testing.T) {
	const services = 300
	allocations := testing.AllocsPerRun(1, func() {
		m := NewServiceMap(Options{}, thisNode)
		for i := range services {
			s := webService(TCP, IPv4)
			s.Name.Name = fmt.Sprintf("s%d", i)
			s.ClusterIPs = []netip.Addr{clusterIP(IPv4, i)}
			s.ExternalIPs = []netip.Addr{clusterIP(IPv4, services)}
			m.SetService(s)
		}
		if got := m.Changes(); len(got.Conflicts) != services-1 {
			t.Errorf("%d conflicts", len(got.Conflicts))
		}
	})
	if allocations > 100*services {
		t.Errorf("%.0f allocations for %d Services", allocations, services)
	}
}
