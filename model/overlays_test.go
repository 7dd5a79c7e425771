package model

import (
	"slices"
	"testing"
	"time"
)

// TestHoldUntilEndpointOrTooLong has an outage that lasts longer than the hold, and another one.
func TestHoldUntilEndpointOrTooLong(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(changed(webAllKinds(p, f), func(s *Service) { s.Hold = time.Minute }))
		expect := func(when string, want Verdict) {
			t.Helper()
			m.Changes()
			for _, kind := range []Kind{KindClusterIP, KindNodePort, KindExternalIP, KindLoadBalancerIP} {
				if got := m.claims.winners[webMatch(kind, f, p)].Verdict; got != want {
					t.Errorf("%s: verdict %d of %s, want %d", when, got, kind, want)
				}
			}
		}
		change := func(over bool) { m.SetOverlays([]Overlay{HoldChange{Key: webMatch(KindClusterIP, f, p), Over: over}}) }
		over := func() { change(true) }

		expect("without endpoints", VerdictHold)
		over()
		expect("after the hold", VerdictReject)
		m.SetService(changed(webAllKinds(p, f), func(s *Service) { s.Hold = time.Hour }))
		expect("after another change", VerdictReject)
		change(false)
		expect("when it begins again", VerdictHold)
		over()
		expect("after the second hold", VerdictReject)
		m.SetSlice(webSlice(f, p, ready(1)))
		expect("with an endpoint", VerdictBalance)
		over() // too late
		expect("with an endpoint", VerdictBalance)
		published := servingTerminating(1)
		published.Ready = true
		m.SetSlice(webSlice(f, p, published))
		expect("with publishNotReadyAddresses, when it terminates", VerdictBalance)
		m.SetSlice(webSlice(f, p, servingTerminating(1)))
		expect("when it terminates", VerdictHold)
		m.SetSlice(webSlice(f, p))
		expect("without it", VerdictHold)
	})
}

// TestHoldOfEarlierServiceIsNotOver has a Service deleted and created again just before its hold is
// reported as over, and just after it.
func TestHoldOfEarlierServiceIsNotOver(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{}, thisNode)
		create := func(uid string) {
			m.DeleteService(webAllKinds(p, f).Name)
			m.SetService(changed(webAllKinds(p, f), func(s *Service) { s.Hold, s.UID = time.Minute, uid }))
		}
		key := webMatch(KindClusterIP, f, p)
		over := func(uid string) { m.SetOverlays([]Overlay{HoldChange{key, uid, true}}) }
		expect := func(want Verdict) {
			t.Helper()
			m.Changes()
			if got := m.FrontendAt(key).Verdict; got != want {
				t.Errorf("verdict %d, want %d", got, want)
			}
		}
		create("1")
		expect(VerdictHold)
		create("2")
		over("1")
		expect(VerdictHold)
		over("2")
		create("3")
		expect(VerdictHold)
		over("3")
		expect(VerdictReject)
	})
}

// TestFollowersSeeEndpointsOfHeldServices has an endpoint replaced: attempts to it end at all addresses
// of the Service, so followers must see each of them.
func TestFollowersSeeEndpointsOfHeldServices(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(changed(webAllKinds(p, f), func(s *Service) { s.Hold = time.Minute }))
		m.SetSlice(webSlice(f, p, ready(1)))
		all := len(m.Changes().Set)
		m.SetSlice(webSlice(f, p, ready(2)))
		set := m.Changes().Set
		if len(set) != all {
			t.Errorf("%d of %d frontends are set", len(set), all)
		}
		for _, c := range set {
			if want := podPorts(f, 2); !equalLists(c.Pool.FlowEndpoints, want) {
				t.Errorf("%s: flows may use %v, want %v", c.Match, c.Pool.FlowEndpoints, want)
			}
		}
	})
}

// TestDropIsNotHeld has an endpoint on another node only, which the policy excludes: the client is
// to try another node.
func TestDropIsNotHeld(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(changed(webAllKinds(p, f), func(s *Service) {
			s.Hold, s.InternalPolicy = time.Minute, PolicyLocal
		}))
		m.SetSlice(webSlice(f, p, ready(1).on(there)))
		m.Changes()
		if got := m.claims.winners[webMatch(KindClusterIP, f, p)].Verdict; got != VerdictDrop {
			t.Errorf("verdict %d, want VerdictDrop", got)
		}
	})
}

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
