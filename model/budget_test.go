package model

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// budgetService returns a Service with one ClusterIP, and a slice with endpoints.
func budgetService(namespace, name string, created int64, f Family, p Protocol, endpoints int) (Service, EndpointSlice) {
	s := webService(p, f)
	s.Name, s.Created = ServiceName{namespace, name}, created
	s.ClusterIPs = s.ClusterIPs[:1]
	slice := EndpointSlice{Name: EndpointSliceName{namespace, name + "-1"}, Service: s.Name, Family: f}
	slice.Ports = []EndpointPort{{Name: s.Ports[0].Name, Protocol: p, Port: 8080}}
	for k := range endpoints {
		e := ready(k).on(there).Endpoint
		e.Addr = podIP(f, k)
		slice.Endpoints = append(slice.Endpoints, e)
	}
	return s, slice
}

// budgetTest is a map with a budget.
type budgetTest struct {
	*testing.T
	*ServiceMap
	f Family
	p Protocol
}

// set adds a Service that has as many addresses, each of which weighs ten.
func (s *budgetTest) set(namespace, name string, created int64, addresses int) {
	service, slice := budgetService(namespace, name, created, s.f, s.p, 0)
	service.ClusterIPs = []netip.Addr{clusterIP(s.f, int(created))}
	for k := range addresses - 1 {
		service.ExternalIPs = append(service.ExternalIPs, externalIP(s.f, 20*int(created)+k))
	}
	s.SetService(service)
	s.SetSlice(slice)
}

// expect checks how many Services are reported, and which are not served.
func (s *budgetTest) expect(when string, reported int, unserved ...string) {
	s.Helper()
	if got := s.Changes().OverBudget; len(got) != reported {
		s.Errorf("%s: reported %v, want %d", when, got, reported)
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
	everyBudget(t, Budget{}, func(s *budgetTest) {
		for name, test := range map[string]struct {
			change           func(*Service)
			ports, endpoints int // of the slice
			want             int
		}{
			"an address":             {func(*Service) {}, 0, 0, 10},
			"endpoints of two ports": {func(*Service) {}, 2, 3, 10 + 2*2*3},
			"external addresses":     {func(o *Service) { o.ExternalIPs = make([]netip.Addr, 3) }, 0, 0, 10 + 10*3},
			"balancer addresses":     {func(o *Service) { o.LoadBalancerIPs = make([]netip.Addr, 3) }, 0, 0, 10 + 10*3},
			"addresses of two ports": {func(o *Service) { o.Ports, o.ExternalIPs = ports(2), make([]netip.Addr, 1) }, 0, 0, 20 + 10*2},
			"a node port":            {func(o *Service) { o.Ports[0].NodePort = 30000 }, 0, 0, 10 + 10},
			"source ranges": {func(o *Service) {
				o.Ports, o.LoadBalancerIPs, o.SourceRanges = ports(2), make([]netip.Addr, 3), make([]netip.Prefix, 5)
			}, 0, 0, 20 + 2*3*10 + 2*3*5},
			"Maglev":                     {func(o *Service) { o.Ports, o.Scheduler = ports(2), SchedulerMaglev }, 0, 0, 20 + 2*4*MaglevTableSize},
			"least connections":          {func(o *Service) { o.Scheduler = SchedulerLeastConnections }, 1, 3, 10 + (4+1)*3},
			"local least connections":    {func(o *Service) { o.Scheduler, o.InternalPolicy = SchedulerLeastConnections, PolicyLocal }, 1, 3, 10 + (2*4+1)*3},
			"many least connections":     {func(o *Service) { o.Scheduler = SchedulerLeastConnections }, 1, 200, 10 + 2*200 + 255},
			"255 endpoints":              {func(*Service) {}, 1, 255, 10 + 2*255},
			"255 local endpoints":        {func(o *Service) { o.ExternalPolicy = PolicyLocal }, 1, 255, 10 + 3*255},
			"256 endpoints":              {func(*Service) {}, 1, 256, 10 + 4*256},
			"256 endpoints of two ports": {func(o *Service) { o.Ports = ports(2) }, 1, 256, 20 + 2*256},
			"affinity":                   {func(o *Service) { o.Affinity = time.Hour }, 2, 3, 10 + 2*4*2*3},
		} {
			service, _ := budgetService("a", "s", 1, s.f, s.p, 0)
			test.change(&service)
			slice := EndpointSlice{Ports: make([]EndpointPort, test.ports), Endpoints: make([]Endpoint, test.endpoints)}
			e := serviceEntry{service: &service, slices: []EndpointSlice{slice}}
			if weight := e.measure(); weight != test.want {
				s.Errorf("%s: weight %d, want %d", name, weight, test.want)
			}
		}
	})
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
		{Budget{Total: 20, PerNamespace: 15}, []int{2, 3, 20}, map[string]int{"c": 15}},
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

// TestManyNamespacesNearTheirLimit has a namespace within its own budget, beside others of
// one author at theirs. It is within its share as long as all are few enough to have as much.
func TestManyNamespacesNearTheirLimit(t *testing.T) {
	const total, most = 4_000_000, 1_000_000
	for weight, others := range map[int]int{most: 3, 500_000: 7, 100_000: 39} {
		u := budgetUsage{byNamespace: map[string]int{}}
		u.add("production", weight)
		for n := range 2 * others {
			u.add(fmt.Sprint("other", n), most)
			_, cut := u.limits(Budget{PerNamespace: most, Total: total})["production"]
			if want := n+1 > others; cut != want {
				t.Errorf("%d beside %d namespaces at their limit: over the budget: %t, want %t", weight, n+1, cut, want)
			}
		}
	}
}

func TestOverBudgetReportsWeightAndLimit(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		for _, test := range []struct {
			budget   Budget
			affinity time.Duration
			want     OverBudget
		}{
			{Budget{PerNamespace: 21}, 0, OverBudget{Weight: 10 + 2*6, Limit: 21}},
			{Budget{PerNamespace: 57}, time.Hour, OverBudget{Weight: 10 + 8*6, Limit: 57}},
		} {
			s, slice := budgetService("a", "s", 1, f, p, 6)
			s.Affinity, test.want.Service = test.affinity, s.Name
			m := NewServiceMap(Options{Budget: test.budget}, thisNode)
			m.SetService(s)
			m.SetSlice(slice)
			if got := m.Changes().OverBudget; !slices.Equal(got, []OverBudget{test.want}) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		}
	})
}

func TestFairShare(t *testing.T) {
	for _, tt := range []struct {
		total  int
		wanted []int
		want   int // at least, if all fits
	}{
		{10, []int{4, 3, 2}, 4},
		{10, []int{7, 7}, 5},
		{10, []int{9, 1, 9}, 4},
		{10, []int{1, 2, 9, 9}, 3},
		{10, nil, 0},
	} {
		got, used := FairShare(tt.total, tt.wanted), 0
		for _, n := range tt.wanted {
			used += min(n, got)
		}
		if got < tt.want || used > tt.total {
			t.Errorf("%d among %d: share %d, want %d; together %d", tt.total, tt.wanted, got, tt.want, used)
		}
	}
}
