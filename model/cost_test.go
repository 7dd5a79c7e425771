package model

import (
	"fmt"
	"net/netip"
	"testing"

	"kube-vmap/model/costtest"
)

// alternating returns a function that changes from one state to the other and back.
func alternating(m *ServiceMap, a, b func()) func() {
	turn := false
	return func() {
		if turn = !turn; turn {
			a()
		} else {
			b()
		}
		m.Changes()
	}
}

func costService(name string, i int) Service {
	return Service{
		Name: ServiceName{"shop", name}, UID: name, Created: int64(i),
		ClusterIPs: []netip.Addr{podIP(IPv4, i), clusterIP(IPv6, i)},
		Ports:      []ServicePort{{Name: "p", Protocol: TCP, Port: 80}},
	}
}

// costServices returns n Services, each younger than the one before.
func costServices(n int) (all []Service) {
	for i := range n {
		all = append(all, costService(fmt.Sprint("other-", i), i+2))
	}
	return all
}

func costSlice(s Service, part, endpoints int) EndpointSlice {
	out := EndpointSlice{Name: EndpointSliceName{"shop", fmt.Sprint(s.Name.Name, "-", part)}, Service: s.Name}
	for _, p := range s.Ports {
		out.Ports = append(out.Ports, EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: p.Port})
	}
	for k := range endpoints {
		out.Endpoints = append(out.Endpoints, Endpoint{Addr: podIP(IPv4, part*10_000+k), Ready: true, Serving: true})
	}
	return out
}

// changedPolicy returns a function that changes the policies of the Service, with other
// Services in the map, and back.
func changedPolicy(s Service, others ...Service) func() {
	return changedPolicyIn(NewServiceMap(Options{}, thisNode), s, others...)
}

func changedPolicyIn(m *ServiceMap, s Service, others ...Service) func() {
	for _, o := range others {
		m.SetService(o)
	}
	other := s
	other.ExternalPolicy, other.InternalPolicy = PolicyLocal, PolicyLocal
	m.SetService(s)
	m.Changes()
	return alternating(m, func() { m.SetService(other) }, func() { m.SetService(s) })
}

func ports(n int) []ServicePort {
	var out []ServicePort
	for i := range n {
		out = append(out, ServicePort{Name: fmt.Sprint("p", i), Protocol: TCP, Port: uint16(i + 1)})
	}
	return out
}

func externals(n int) []netip.Addr {
	var out []netip.Addr
	for i := range n {
		out = append(out, podIP(IPv4, 100_000+i))
	}
	return out
}

// dimensions are the things that there may be many of. Each returns a function that makes a change
// in a state with n of them.
var dimensions = []struct {
	name  string
	build func(n int) func()
	own   bool // the change is about all n
}{
	{"ports of the Service", func(n int) func() {
		s := costService("web", 1)
		s.Ports = ports(n)
		return changedPolicy(s)
	}, true},
	{"ports of a Service that lists its own ClusterIP", func(n int) func() {
		s := costService("web", 1)
		s.Ports, s.ExternalIPs = ports(n), s.ClusterIPs
		return changedPolicy(s)
	}, true},
	{"ports that are renamed", func(n int) func() {
		m := NewServiceMap(Options{}, thisNode)
		a, b := costService("web", 1), costService("web", 1)
		a.Ports, b.Ports = ports(n), ports(n)
		for i := range b.Ports {
			b.Ports[i].Name += "x"
		}
		return alternating(m, func() { m.SetService(a) }, func() { m.SetService(b) })
	}, true},
	{"external addresses", func(n int) func() {
		s := costService("web", 1)
		s.ExternalIPs = externals(n)
		return changedPolicy(s)
	}, true},
	{"external addresses that others hold", func(n int) func() {
		s, older := costService("web", 2), costService("older", 1)
		s.ExternalIPs, older.ExternalIPs = externals(n), externals(n)
		return changedPolicy(s, older)
	}, true},
	{"ports that another Service of the same ClusterIP holds", func(n int) func() {
		s, older := costService("web", 2), costService("older", 1)
		s.Ports, older.Ports, s.ClusterIPs = ports(n), ports(n), older.ClusterIPs
		return changedPolicy(s, older)
	}, true},
	{"source ranges", func(n int) func() {
		s := costService("web", 1)
		s.LoadBalancerIPs = externals(1)
		for i := range n {
			s.SourceRanges = append(s.SourceRanges, netip.PrefixFrom(podIP(IPv4, i), 32))
		}
		return changedPolicy(s)
	}, true},
	{"endpoints of a slice", func(n int) func() {
		m := NewServiceMap(Options{}, thisNode)
		s := costService("web", 1)
		m.SetService(s)
		return alternating(m, func() { m.SetSlice(costSlice(s, 0, n)) }, func() { m.SetSlice(costSlice(s, 0, n-1)) })
	}, true},
	{"endpoints of different weights", func(n int) func() {
		m := NewServiceMap(Options{}, thisNode)
		s := costService("web", 1)
		m.SetService(s)
		for part := range n / 100 {
			slice := costSlice(s, part, 100)
			slice.Weight = uint16(1 + part*101)
			m.SetSlice(slice)
		}
		slice, other := costSlice(s, 0, 100), costSlice(s, 0, 100)
		slice.Weight, other.Weight = 7, 65535
		m.SetSlice(slice)
		m.Changes()
		return alternating(m, func() { m.SetSlice(other) }, func() { m.SetSlice(slice) })
	}, true},
	{"other Services", func(n int) func() { return changedPolicy(costService("web", 1), costServices(n)...) }, false},
	{"other claims of its external address", func(n int) func() {
		s, others := costService("web", 1), costServices(n)
		s.Created, s.ExternalIPs = int64(n/2), externals(1)
		for i := range others {
			others[i].ExternalIPs = s.ExternalIPs
		}
		return changedPolicy(s, others...)
	}, false},
	{"Services of another namespace over its budget", func(n int) func() {
		m := NewServiceMap(Options{Budget: Budget{PerNamespace: 100}}, thisNode)
		s := costService("web", 1)
		s.Name.Namespace = "modest"
		return changedPolicyIn(m, s, costServices(n)...)
	}, false},
	{"claims of the external address that it takes from others", func(n int) func() {
		m := NewServiceMap(Options{}, thisNode)
		s, without := costService("web", 1), costService("web", 1)
		s.ExternalIPs = externals(1)
		for _, o := range costServices(n) {
			o.ExternalIPs = s.ExternalIPs
			m.SetService(o)
		}
		return alternating(m, func() { m.SetService(s) }, func() { m.SetService(without) })
	}, false},
}

func TestCostOfChangeGrowsAtMostLinearly(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, d := range dimensions {
		t.Run(d.name, func(t *testing.T) { costtest.Check(t, d.build, d.own) })
	}
}
