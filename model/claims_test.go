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

// webMap returns a map with Service web and pod 1 on this node. Changes has been called.
func webMap() *ServiceMap {
	m := NewServiceMap(Options{}, thisNode)
	m.SetService(webService(TCP, IPv4))
	m.SetSlice(webSlice(IPv4, TCP, ready(1).on(here)))
	m.Changes()
	return m
}

// checkNothing fails if there are changes.
func checkNothing(t *testing.T, got Changes) {
	t.Helper()
	if len(got.Set)+len(got.Removed)+len(got.Conflicts)+len(got.HealthChecks) > 0 {
		t.Errorf("got %+v", got)
	}
}

// checkEmpty fails if the map remembers anything.
func checkEmpty(t *testing.T, m *ServiceMap) {
	t.Helper()
	for name, n := range map[string]int{
		"services": len(m.services), "known": m.count, "slices": len(m.slices), "dirty": len(m.dirty),
		"matches": len(m.claims.byMatch), "winners": len(m.claims.winners), "loser counts": len(m.claims.loserCounts), "losers": m.claims.loserTotal,
		"health checks": len(m.health),
	} {
		if n != 0 {
			t.Errorf("%d %s remain", n, name)
		}
	}
}

func TestSameNodeCostsNothing(t *testing.T) {
	m := webMap()
	m.SetNode(thisNode)
	if len(m.dirty) > 0 {
		t.Errorf("%d Services are to be computed again", len(m.dirty))
	}
}

func TestFrontendsAreThoseOfLastChanges(t *testing.T) {
	m := webMap()
	before := m.Frontends()
	other := webService(TCP, IPv4)
	other.Name.Name = "other"
	m.SetService(other)
	m.DeleteService(web)
	checkExactly(t, m.Frontends(), before)
	m.Changes()
	if got := m.Frontends(); len(got) != 1 || got[0].Service.ServiceName != other.Name {
		t.Errorf("got %v", got)
	}
}

// TestNodeAddressesAreClientsOfNodePorts changes the addresses that serve node ports.
func TestNodeAddressesAreClientsOfNodePorts(t *testing.T) {
	primary, other := nodeIP(IPv4, 1), nodeIP(IPv4, 2)
	ofNode := netip.PrefixFrom(primary, 32)
	m := NewServiceMap(Options{}, Node{Name: here, Addrs: [2]netip.Addr{IPv4: primary}})
	m.SetService(Service{
		Ports: []ServicePort{{Port: 80, NodePort: 30000}}, ClusterIPs: []netip.Addr{clusterIP(IPv4, 0)},
		SourceRanges: []netip.Prefix{ofNode}, RangesForAll: true,
	})
	for _, addrs := range [][]netip.Addr{nil, {primary}, {primary, other}} {
		m.SetNodeAddrs(addrs)
		m.Changes()
		want := []netip.Prefix{ofNode}
		for _, a := range addrs {
			want = append(want, netip.PrefixFrom(a, 32))
		}
		if f := m.FrontendAt(Match{Port: 30000}); !f.Restricted || !slices.Equal(f.Sources, want) {
			t.Errorf("%v: restricted %t to %v, want %v", addrs, f.Restricted, f.Sources, want)
		}
	}
}

// TestLabelsConcernSelectedServicesOnly changes labels, and computes only what they change.
func TestLabelsConcernSelectedServicesOnly(t *testing.T) {
	m := NewServiceMap(Options{}, Node{Name: here, Labels: "role=edge"})
	for i, nodes := range []NodeSelector{nil, {{Labels: "role=edge"}}, {{Labels: "role=edge", Not: true}}, {{Labels: "other"}}} {
		m.SetService(Service{
			Name: ServiceName{"default", string(rune('a' + i))}, Nodes: nodes, Ports: []ServicePort{{Port: 80, NodePort: uint16(30000 + i)}},
			ClusterIPs: []netip.Addr{clusterIP(IPv4, i)},
		})
	}
	m.Changes()
	for _, step := range []struct {
		labels       NameSet
		set, removed []uint16
	}{
		{"zone=a", []uint16{30002}, []uint16{30001}},
		{"zone=b", nil, nil},
		{"other", []uint16{30003}, nil},
		{NameSetOf("role=edge", "other"), []uint16{30001}, []uint16{30002}},
	} {
		m.SetNode(Node{Name: here, Labels: step.labels})
		if n := len(step.set) + len(step.removed); len(m.dirty) != n {
			t.Errorf("%s: %d Services are computed, want %d", step.labels, len(m.dirty), n)
		}
		var set, removed []uint16
		c := m.Changes()
		for _, f := range c.Set {
			set = append(set, f.Match.Port)
		}
		for _, match := range c.Removed {
			removed = append(removed, match.Port)
		}
		if !slices.Equal(set, step.set) || !slices.Equal(removed, step.removed) {
			t.Errorf("%s: set %v, removed %v, want %v", step.labels, set, removed, step)
		}
	}
}
