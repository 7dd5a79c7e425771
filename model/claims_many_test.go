package model

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestAServicesOwnClusterIPIsNoExternalAddress(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{}, thisNode)
		s := webService(p, f)
		s.InternalPolicy, s.ExternalPolicy, s.ExternalIPs = PolicyLocal, PolicyLocal, s.ClusterIPs
		m.SetService(s)
		m.SetSlice(webSlice(f, p, ready(1).on(there)))
		m.Changes()
		if got := m.NoLocalEndpoints(); got != notLocal(f, 1, 0) {
			t.Errorf("got %v", got)
		}
	})
}

// TestManyClaimsOfOneAddressCostWhatTheyAre counts allocations: with each claim
// compared with each other, these would be millions.
func TestManyClaimsOfOneAddressCostWhatTheyAre(t *testing.T) {
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
