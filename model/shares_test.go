package model

import (
	"slices"
	"testing"
)

// leastConnections makes a Service one with least connections, and a Local policy for
// external traffic.
func leastConnections(s *Service) {
	s.Scheduler, s.ExternalPolicy = SchedulerLeastConnections, PolicyLocal
}

// sharesOf returns the shares of the cluster's and the node's list.
func sharesOf(m *ServiceMap, f Family, p Protocol) (cluster, local []uint16) {
	pool := m.FrontendsOf(webService(p, f).Name)[0].Pool
	return pool.ClusterShares, pool.LocalShares
}

func TestSharesCountWhileEndpointsStay(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		three := []pod{ready(1).on(here), ready(2).on(there), ready(3).on(here)}
		m := allKindsMap(f, p, leastConnections)
		m.SetSlice(webSlice(f, p, three...))
		m.Changes()
		key := webMatch(KindClusterIP, f, p)
		shares := PoolShares{
			Key:     key,
			Cluster: ListShares{Endpoints: podPorts(f, 1, 2, 3), Shares: []uint16{0, 4, 8}},
			Local:   ListShares{Endpoints: podPorts(f, 1, 3), Shares: []uint16{5, 3}},
		}
		check := func(when string, cluster, local []uint16) {
			t.Helper()
			m.Changes()
			if c, l := sharesOf(m, f, p); !slices.Equal(c, cluster) || !slices.Equal(l, local) {
				t.Errorf("%s: shares %v and %v, want %v and %v", when, c, l, cluster, local)
			}
		}
		m.SetOverlays([]Overlay{shares})
		if set := len(m.Changes().Set); set != len(kinds) {
			t.Errorf("%d frontends changed, want all", set)
		}
		check("without another change", shares.Cluster.Shares, shares.Local.Shares)
		m.SetService(changed(webAllKinds(p, f), leastConnections))
		check("when the Service was updated", shares.Cluster.Shares, shares.Local.Shares)

		m.SetSlice(webSlice(f, p, ready(1).on(here), ready(4).on(there), ready(3).on(here)))
		check("when another node has another endpoint", nil, shares.Local.Shares)
		m.SetSlice(webSlice(f, p, three...))
		check("when it is back", nil, shares.Local.Shares)
		m.SetOverlays([]Overlay{shares})
		check("when they are set again", shares.Cluster.Shares, shares.Local.Shares)

		m.SetOverlays([]Overlay{PoolShares{Key: key, Cluster: shares.Cluster}})
		check("of the cluster only", shares.Cluster.Shares, nil)
		m.SetOverlays([]Overlay{PoolShares{Key: key, Local: shares.Local}})
		check("of the node only", nil, shares.Local.Shares)
		m.SetOverlays([]Overlay{PoolShares{Key: key}})
		check("when they follow the weights", nil, nil)
		m.SetOverlays([]Overlay{PoolShares{Key: key, Cluster: ListShares{Endpoints: podPorts(f, 1, 2), Shares: []uint16{1, 9}}}})
		check("for endpoints that it does not have", nil, nil)
		other := shares
		other.Key.Port++
		m.SetOverlays([]Overlay{other})
		check("for another pool", nil, nil)

		m.SetOverlays([]Overlay{shares})
		m.SetService(changed(webAllKinds(p, f)))
		check("with another scheduler", nil, nil)
		m.SetService(changed(webAllKinds(p, f), leastConnections))
		check("with the scheduler again", nil, nil)
		m.SetOverlays([]Overlay{shares})
		m.DeleteService(webService(p, f).Name)
		m.Changes()
		m.SetService(changed(webAllKinds(p, f), leastConnections))
		check("when the Service was removed", nil, nil)
	})
}
