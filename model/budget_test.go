package model

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// budgetTest is a map with a budget.
type budgetTest struct {
	*testing.T
	*ServiceMap
	f Family
	p Protocol
}

// set adds a Service with so many addresses, each of weight ten.
func (s *budgetTest) set(namespace, name string, created int64, addresses int) {
	s.setService(namespace, name, created, addresses, 0)
}

func (s *budgetTest) setService(namespace, name string, created int64, addresses, endpoints int) {
	service, slice := webService(s.p, s.f), webSlice(s.f, s.p)
	service.Name, service.Created = ServiceName{namespace, name}, created
	service.ClusterIPs = []netip.Addr{clusterIP(s.f, int(created))}
	for k := range addresses - 1 {
		service.ExternalIPs = append(service.ExternalIPs, externalIP(s.f, 20*int(created)+k))
	}
	slice.Name, slice.Service = EndpointSliceName{namespace, name}, service.Name
	for _, a := range podIPs(s.f, []int{1, 2, 3, 4}[:endpoints]...) {
		slice.Endpoints = append(slice.Endpoints, Endpoint{Addr: a, Ready: true})
	}
	s.SetService(service)
	s.SetSlice(slice)
}

// expect checks how many Services are reported, and which are not served.
func (s *budgetTest) expect(when string, reported int, unserved ...string) {
	s.Helper()
	changed := s.Changes().OverBudget
	if len(changed) != reported {
		s.Errorf("%s: reported %v, want %d", when, changed, reported)
	}
	for _, got := range changed {
		want := OverBudget{Service: got.Service}
		if e := s.services[got.Service]; e.overBudget.Weight > 0 {
			want.Weight, want.Limit = e.weight, s.usage.limited[got.Service.Namespace]
		}
		if got != want {
			s.Errorf("%s: reported %+v, want %+v", when, got, want)
		}
	}
	var got []string
	for name, e := range s.services {
		if e.service == nil {
			continue
		}
		beyond := e.overBudget.Weight > 0
		if served := len(s.FrontendsOf(name)) > 0; served == beyond {
			s.Errorf("%s: %s is served: %t, over the budget: %t", when, name, served, beyond)
		}
		if beyond {
			got = append(got, name.String())
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, unserved) {
		s.Errorf("%s: not served: %q, want %q", when, got, unserved)
	}
}

func everyBudget(t *testing.T, b Budget, test func(*budgetTest)) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		test(&budgetTest{t, NewServiceMap(Options{Budget: b}, thisNode), f, p})
	})
}

func TestServiceOverNamespaceBudgetIsNotServed(t *testing.T) {
	everyBudget(t, Budget{PerNamespace: 100}, func(s *budgetTest) {
		s.set("a", "heavy", 1, 10)
		s.set("b", "other", 2, 10)
		s.expect("at the limit", 0)
		s.set("a", "heavy", 1, 11)
		s.expect("with more", 1, "a/heavy")
		s.set("a", "heavy", 1, 12)
		s.expect("with still more", 0, "a/heavy")
		s.set("a", "heavy", 1, 9)
		s.expect("with less", 1)
		s.set("a", "heavy", 1, 11)
		s.expect("again", 1, "a/heavy")
		s.DeleteService(ServiceName{"a", "heavy"})
		s.expect("deleted", 1)
	})
}

func TestOlderServicesOfNamespaceAreServedFirst(t *testing.T) {
	everyBudget(t, Budget{PerNamespace: 100}, func(s *budgetTest) {
		for i := range 5 {
			s.set("a", fmt.Sprintf("s%d", i), int64(i), 3)
		}
		s.set("b", "other", 9, 3)
		s.expect("three fit", 2, "a/s3", "a/s4")
		s.set("a", "s4", 4, 1)
		s.expect("a small one fits", 1, "a/s3")
		s.set("a", "s0", 0, 8)
		s.expect("the oldest grows", 2, "a/s1", "a/s2", "a/s3")
		s.DeleteService(ServiceName{"a", "s0"})
		s.expect("the oldest is deleted", 3)
	})
}

// TestTotalBudgetLimitsLargestNamespaces has three namespaces that together need more
// than the total. The one within its share is not affected.
func TestTotalBudgetLimitsLargestNamespaces(t *testing.T) {
	everyBudget(t, Budget{PerNamespace: 1000, Total: 200}, func(s *budgetTest) {
		s.set("small", "s", 7, 4)
		for i := range 4 {
			s.set("big", fmt.Sprintf("s%d", i), int64(i), 4)
		}
		s.expect("within the total", 0)
		s.set("bigger", "s", 9, 9)
		s.expect("over it, 8 for each of two", 3, "big/s2", "big/s3", "bigger/s")
		s.set("bigger", "s", 9, 8)
		s.expect("one needs no more", 1, "big/s2", "big/s3")
		s.DeleteService(ServiceName{"bigger", "s"})
		s.expect("enough again", 2)
	})
}

func TestWeightOfAService(t *testing.T) {
	least := func(s *Service) { s.Scheduler = SchedulerLeastConnections }
	maglev := func(s *Service) { s.Scheduler = SchedulerMaglev }
	affinity := func(s *Service) { s.Affinity = time.Hour }
	type part struct { // a slice, with its ports and endpoints
		ports, endpoints int
		weight           uint16
	}
	empty := part{1, 0, 0} // as the EndpointSlice controller keeps one
	for name, test := range map[string]struct {
		change func(*Service)
		parts  []part
		want   int
	}{
		"an address":             {nil, nil, 10},
		"endpoints of two ports": {nil, []part{{2, 3, 0}}, 10 + 2*2*3},
		"external addresses":     {func(s *Service) { s.ExternalIPs = make([]netip.Addr, 3) }, nil, 10 + 10*3},
		"balancer addresses":     {func(s *Service) { s.LoadBalancerIPs = make([]netip.Addr, 3) }, nil, 10 + 10*3},
		"addresses of two ports": {func(s *Service) { s.Ports, s.ExternalIPs = ports(2), make([]netip.Addr, 1) }, nil, 20 + 10*2},
		"a node port":            {func(s *Service) { s.Ports[0].NodePort = 30000 }, nil, 10 + 10},
		"source ranges": {func(s *Service) {
			s.Ports, s.LoadBalancerIPs, s.SourceRanges = ports(2), make([]netip.Addr, 3), make([]netip.Prefix, 5)
		}, nil, 20 + 2*3*10 + 2*3*5},
		"source ranges for all": {func(s *Service) {
			s.Ports[0].NodePort, s.RangesForAll = 30000, true
			s.ExternalIPs, s.SourceRanges, s.DeniedRanges = make([]netip.Addr, 3), make([]netip.Prefix, 5), make([]netip.Prefix, 2)
		}, nil, 10 + 10 + 3*10 + (1+3)*(5+2)},
		"Maglev":                     {func(s *Service) { s.Ports, s.Scheduler = ports(2), SchedulerMaglev }, nil, 20 + 2*4*MaglevTableSize},
		"least connections":          {least, []part{{1, 3, 0}}, 10 + (4+1)*3},
		"local least connections":    {leastConnections, []part{{1, 3, 0}}, 10 + (2*4+1)*3},
		"many least connections":     {least, []part{{1, 200, 0}}, 10 + 2*200 + 255},
		"255 endpoints":              {nil, []part{{1, 255, 0}}, 10 + 2*255},
		"255 local endpoints":        {func(s *Service) { s.InternalPolicy = PolicyLocal }, []part{{1, 255, 0}}, 10 + 3*255},
		"256 endpoints":              {nil, []part{{1, 256, 0}}, 10 + 4*256},
		"256 endpoints of two ports": {func(s *Service) { s.Ports = ports(2) }, []part{{1, 256, 0}}, 20 + 2*256},
		"affinity":                   {affinity, []part{{2, 3, 0}}, 10 + 2*4*2*3},

		"slow start":      {slowStart, []part{{1, 3, 0}}, 10 + 64 + 3},
		"many that start": {slowStart, []part{{1, 40, 0}}, 10 + 4*(64+8*32)},

		"equal weights":              {nil, []part{{1, 1, 1000}, empty, {1, 2, 1000}}, 10 + 2*3},
		"in lowest terms":            {nil, []part{{1, 1, 100}, empty, {1, 2, 300}}, 10 + 1 + 2*3 + 3},
		"slots":                      {nil, []part{{1, 1, 2}, {1, 2, 20}}, 10 + 1 + 2*10 + 3},
		"more than there may be":     {nil, []part{{1, 1, 1}, {1, 2, 65535}}, 10 + 4*(1024+4*3)},
		"weights and affinity":       {affinity, []part{{1, 1, 2}, {1, 2, 20}}, 10 + 4*(1+2*10) + 4*3},
		"a table has the same size":  {maglev, []part{{1, 1, 1}, {1, 2, 65535}}, 10 + 2*3 + weightOfMaglevTable},
		"slots instead of a table":   {maglev, []part{{1, 251, 1}, {1, 251, 65535}}, 10 + weightOfMaglevTable + 4*(1024+4*2*251)},
		"one in one map and another": {nil, []part{{1, 1, 1}, {1, 2, 200}}, 10 + 4*401},
	} {
		service := webService(TCP, IPv4)
		if test.change != nil {
			test.change(&service)
		}
		e := serviceEntry{service: &service}
		for _, p := range test.parts {
			slice := EndpointSlice{Weight: p.weight, Ports: make([]EndpointPort, p.ports), Endpoints: make([]Endpoint, p.endpoints)}
			e.slices = append(e.slices, slice)
		}
		if weight := e.measure(); weight != test.want {
			t.Errorf("%s: weight %d, want %d", name, weight, test.want)
		}
	}
}

func TestNamespaceLimits(t *testing.T) {
	for _, test := range []struct {
		budget Budget
		usage  []int // of namespaces a, b, ...
		want   map[string]int
	}{
		{Budget{}, []int{1000}, nil},
		{Budget{PerNamespace: 20}, []int{20}, nil},
		{Budget{PerNamespace: 10}, []int{10, 10}, map[string]int{}},
		{Budget{PerNamespace: 10}, []int{11, 10}, map[string]int{"a": 10}},
		{Budget{Total: 20}, []int{10, 10}, nil},
		{Budget{Total: 20}, []int{10, 11}, map[string]int{"b": 10}},
		{Budget{Total: 11}, []int{3, 5, 5}, map[string]int{"b": 4, "c": 4}},
		{Budget{Total: 11}, []int{7, 7}, map[string]int{"a": 5, "b": 5}},
		{Budget{Total: 10}, []int{3, 9, 3}, map[string]int{"b": 4}},
		{Budget{Total: 20, PerNamespace: 12}, []int{2, 3, 20}, map[string]int{"c": 12}},
		{Budget{Total: 20, PerNamespace: 100}, []int{4, 9, 16}, map[string]int{"b": 8, "c": 8}},
	} {
		u := budgetUsage{byNamespace: map[string]int{}}
		for i, n := range test.usage {
			u.add(string(rune('a'+i)), n)
		}
		got := u.limits(test.budget)
		if (got == nil) != (test.want == nil) || !maps.Equal(got, test.want) {
			t.Errorf("%+v of %v: got %v, want %v", test.budget, test.usage, got, test.want)
		}
	}
}
