package model

import (
	"slices"
	"testing"
)

// avoiding returns a map with a Service of these endpoints that avoids unresponsive ones.
func avoiding(f Family, p Protocol, endpoints ...pod) *ServiceMap {
	m := NewServiceMap(Options{PassiveChecks: PassiveChecksAvoid, MaxAvoidedPercent: 50}, thisNode)
	m.SetService(webAllKinds(p, f))
	m.SetSlice(webSlice(f, p, endpoints...))
	m.Changes()
	return m
}

// setUnresponsive sets the unresponsive endpoints of the Service, and returns its pool.
func setUnresponsive(m *ServiceMap, f Family, p Protocol, numbers ...int) *Pool {
	m.SetOverlays([]Overlay{UnresponsiveEndpoints{webMatch(KindClusterIP, f, p), podPorts(f, numbers...)}})
	m.Changes()
	return poolOfWeb(m, f, p)
}

func poolOfWeb(m *ServiceMap, f Family, p Protocol) *Pool {
	return m.claims.winners[webMatch(KindClusterIP, f, p)].Pool
}

// TestSharesOfAvoidedEndpointAreDropped has shares by connections, which are for all endpoints.
func TestSharesOfAvoidedEndpointAreDropped(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := avoiding(f, p, ready(1), ready(2), ready(3))
		m.SetService(changed(webAllKinds(p, f), leastConnections))
		m.Changes()
		shares := ListShares{Endpoints: podPorts(f, 1, 2, 3), Shares: []uint16{1, 5, 6}}
		m.SetOverlays([]Overlay{PoolShares{Key: webMatch(KindClusterIP, f, p), Cluster: shares}})
		for _, numbers := range [][]int{{2}, nil} {
			if pool := setUnresponsive(m, f, p, numbers...); pool.ClusterShares != nil {
				t.Errorf("%v have shares %v", pool.Cluster, pool.ClusterShares)
			}
		}
	})
}

// TestReplacedEndpointIsForgotten has an endpoint leave the slices and return.
func TestReplacedEndpointIsForgotten(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := avoiding(f, p, ready(1), ready(2), ready(3))
		setUnresponsive(m, f, p, 2)
		for _, endpoints := range [][]pod{{ready(1), ready(3)}, {ready(1), ready(2), ready(3)}} {
			m.SetSlice(webSlice(f, p, endpoints...))
			m.Changes()
			if pool := poolOfWeb(m, f, p); len(pool.Avoided) > 0 || len(pool.Cluster) != len(endpoints) {
				t.Errorf("%v, avoided %v", pool.Cluster, pool.Avoided)
			}
		}
	})
}

// TestFirstUnresponsiveFillTheQuota has three of four endpoints unresponsive; two may be avoided.
func TestFirstUnresponsiveFillTheQuota(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := avoiding(f, p, ready(1), ready(2), ready(3), ready(4))
		pool := setUnresponsive(m, f, p, 4, 2, 1)
		if want := podPorts(f, 2, 4); !slices.Equal(pool.Avoided, want) {
			t.Errorf("avoided %v, want %v", pool.Avoided, want)
		}
	})
}

// TestEqualWeightsBesideAvoidedEndpointAreNone avoids the only endpoint with another weight.
func TestEqualWeightsBesideAvoidedEndpointAreNone(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := avoiding(f, p, ready(1))
		heavy := webSlice(f, p, ready(2), ready(3))
		heavy.Name.Name, heavy.Weight = "heavy", 3
		m.SetSlice(heavy)
		if pool := setUnresponsive(m, f, p, 1); len(pool.Cluster) != 2 || pool.ClusterWeights != nil || pool.ClusterShares != nil {
			t.Errorf("%v have weights %v and shares %v", pool.Cluster, pool.ClusterWeights, pool.ClusterShares)
		}
	})
}
