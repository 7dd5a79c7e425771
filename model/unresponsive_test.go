package model

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

// avoiding returns a map with a Service of these endpoints that avoids those that do not answer.
func avoiding(f Family, p Protocol, percent int, endpoints ...pod) *ServiceMap {
	m := NewServiceMap(Options{PassiveChecks: PassiveChecksAvoid, MaxAvoidedPercent: percent}, thisNode)
	m.SetService(webAllKinds(p, f))
	m.SetSlice(webSlice(f, p, endpoints...))
	m.Changes()
	return m
}

// setUnresponsive sets the endpoints of the Service that do not answer, and returns its pool and
// how many frontends changed.
func setUnresponsive(m *ServiceMap, f Family, p Protocol, numbers ...int) (pool *Pool, changed int) {
	m.SetUnresponsive([]UnresponsiveEndpoints{{webMatch(KindClusterIP, f, p), podPorts(f, numbers...)}})
	changed = len(m.Changes().Set)
	return poolOfWeb(m, f, p), changed
}

func poolOfWeb(m *ServiceMap, f Family, p Protocol) *Pool {
	return m.claims.winners[webMatch(KindClusterIP, f, p)].Pool
}

func TestUnresponsiveEndpointIsAvoidedUntilItAnswers(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := avoiding(f, p, 50, ready(1), ready(2).on(here), ready(3))
		pool, changed := setUnresponsive(m, f, p, 2)
		if !slices.Equal(pool.Cluster, podPorts(f, 1, 3)) || !slices.Equal(pool.Avoided, podPorts(f, 2)) || changed == 0 {
			t.Errorf("%v, avoided %v, %d frontends changed", pool.Cluster, pool.Avoided, changed)
		}
		if p == UDP && !slices.Contains(pool.FlowEndpoints, podPorts(f, 2)[0]) {
			t.Errorf("open flows end: %v", pool.FlowEndpoints)
		}
		if pool, _ = setUnresponsive(m, f, p); len(pool.Cluster) != 3 || len(pool.Avoided) > 0 {
			t.Errorf("%v, avoided %v when all answer", pool.Cluster, pool.Avoided)
		}
	})
}

func TestNeverTooManyEndpointsAreAvoided(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		for _, tt := range []struct{ endpoints, percent, avoided int }{
			{1, 100, 0}, {2, 100, 1}, {5, 100, 4}, {1, 50, 0}, {2, 50, 1}, {3, 50, 1}, {4, 50, 2}, {4, 24, 0}, {4, 25, 1},
		} {
			var all []pod
			var numbers []int
			for i := range tt.endpoints {
				all, numbers = append(all, ready(1+i)), append(numbers, 1+i)
			}
			pool, _ := setUnresponsive(avoiding(f, p, tt.percent, all...), f, p, numbers...)
			if len(pool.Avoided) != tt.avoided || len(pool.Cluster) != tt.endpoints-tt.avoided {
				t.Errorf("%d of %d avoided with %d %%, want %d", len(pool.Avoided), tt.endpoints, tt.percent, tt.avoided)
			}
		}
	})
}

func TestAvoidedEndpointsTakeTheirWeights(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := avoiding(f, p, 50, ready(1), ready(2))
		heavy := webSlice(f, p, ready(3))
		heavy.Name.Name, heavy.Weight = "heavy", 5
		m.SetSlice(heavy)
		m.Changes()
		pool, _ := setUnresponsive(m, f, p, 1)
		if !slices.Equal(pool.Cluster, podPorts(f, 2, 3)) || !slices.Equal(pool.ClusterShares, []uint16{1, 5}) {
			t.Errorf("%v with shares %v", pool.Cluster, pool.ClusterShares)
		}
		if pool, _ = setUnresponsive(m, f, p, 3); pool.ClusterWeights != nil || pool.Slots(false) != 2 {
			t.Errorf("weights %v, %d slots of two equal endpoints", pool.ClusterWeights, pool.Slots(false))
		}
	})
}

func TestReportAndOffAvoidNothing(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		for _, c := range []PassiveChecks{PassiveChecksReport, PassiveChecksOff} {
			m := avoiding(f, p, 50, ready(1), ready(2))
			s := webAllKinds(p, f)
			s.PassiveChecks = c
			m.SetService(s)
			m.Changes()
			pool, changed := setUnresponsive(m, f, p, 1)
			if len(pool.Cluster) != 2 || changed > 0 || pool.PassiveChecks != c.ifOn() {
				t.Errorf("%s: %v, %d frontends changed, pool %s", c, pool.Cluster, changed, pool.PassiveChecks)
			}
			m.SetService(webAllKinds(p, f))
			m.Changes()
			if pool = poolOfWeb(m, f, p); len(pool.Avoided) > 0 {
				t.Errorf("%v avoided since it is no longer %s", pool.Avoided, c)
			}
		}
	})
}

// TestEachListKeepsAnEndpoint has two endpoints on this node, and one on another.
func TestEachListKeepsAnEndpoint(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := avoiding(f, p, 100, ready(1).on(here), ready(2).on(here), ready(3).on(there))
		m.SetService(changed(webAllKinds(p, f), externalLocal))
		pool, _ := setUnresponsive(m, f, p, 1, 2)
		if !slices.Equal(pool.Cluster, podPorts(f, 3)) || !slices.Equal(pool.Local, podPorts(f, 2)) ||
			!slices.Equal(pool.Avoided, podPorts(f, 1, 2)) || !slices.Equal(pool.Hairpin, podIPs(f, 1, 2)) {
			t.Errorf("cluster %v, local %v, avoided %v, hairpin %v", pool.Cluster, pool.Local, pool.Avoided, pool.Hairpin)
		}
	})
}

// TestSharesOfAvoidedEndpointAreDropped has shares by connections, which are for all endpoints.
func TestSharesOfAvoidedEndpointAreDropped(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := avoiding(f, p, 50, ready(1), ready(2), ready(3))
		m.SetService(changed(webAllKinds(p, f), leastConnections))
		m.Changes()
		shares := ListShares{Endpoints: podPorts(f, 1, 2, 3), Shares: []uint16{1, 5, 6}}
		m.SetShares([]PoolShares{{Key: webMatch(KindClusterIP, f, p), Cluster: shares}})
		for _, numbers := range [][]int{{2}, nil} {
			if pool, _ := setUnresponsive(m, f, p, numbers...); pool.ClusterShares != nil {
				t.Errorf("%v have shares %v", pool.Cluster, pool.ClusterShares)
			}
		}
	})
}

// TestReplacedEndpointIsForgotten has an endpoint leave the slices and come back.
func TestReplacedEndpointIsForgotten(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := avoiding(f, p, 50, ready(1), ready(2), ready(3))
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

func TestHealthCheckCountsUnresponsiveEndpointsAsMissing(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{PassiveChecks: PassiveChecksAvoid, MaxAvoidedPercent: 50}, thisNode)
		m.SetService(localService(p, Families[:]...))
		m.SetSlice(webSlice(f, p, ready(1).on(here), ready(2).on(there)))
		m.Changes()
		for _, numbers := range [][]int{{1}, nil} { // the last local one, which stays in its list
			m.SetUnresponsive([]UnresponsiveEndpoints{{webMatch(KindClusterIP, f, p), podPorts(f, numbers...)}})
			checkHealth(t, m.Changes(), HealthCheck{Service: web, Port: healthPort, Local: local(f, 1-len(numbers))})
			if pool := poolOfWeb(m, f, p); len(pool.Local) != 1 {
				t.Errorf("local endpoints %v", pool.Local)
			}
		}
	})
}

func TestEndpointsByNode(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := avoiding(f, p, 50, ready(1).on(here), ready(2).on(there), ready(3).on(here), ready(4), notReady(5).on(here))
		ips := podIPs(f, 1, 2, 3, 4, 5)
		for i, want := range []map[string][]netip.Addr{
			{here: {ips[0], ips[2], ips[4]}}, {there: {ips[1]}}, {here: {ips[0], ips[2], ips[4]}}, {},
		} {
			got := m.EndpointsByNode(ips[i : i+1])
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("nodes of endpoint %d: %v, want %v", i+1, got, want)
			}
		}
	})
}
