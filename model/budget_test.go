package model

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// spender is a Service of a namespace that needs that many elements, and its slice.
func spender(namespace, name string, created int64, f Family, p Protocol, weight int) (Service, EndpointSlice) {
	s := webService(p, f)
	s.Name, s.Created = ServiceName{namespace, name}, created
	s.ClusterIPs = s.ClusterIPs[:1]
	slice := EndpointSlice{Name: EndpointSliceName{namespace, name + "-1"}, Service: s.Name, Family: f}
	slice.Ports = []EndpointPort{{Name: s.Ports[0].Name, Protocol: p, Port: 8080}}
	for k := range weight - 1 { // the address is one
		e := ready(k).on(there).Endpoint
		e.Addr = podIP(f, k)
		slice.Endpoints = append(slice.Endpoints, e)
	}
	return s, slice
}

// book of a budget: who is served, and what is reported.
type spenders struct {
	*testing.T
	*ServiceMap
	f Family
	p Protocol
}

func (s *spenders) set(namespace, name string, created int64, weight int) {
	service, slice := spender(namespace, name, created, s.f, s.p, weight)
	service.ClusterIPs = []netip.Addr{clusterIP(s.f, int(created))}
	s.SetService(service)
	s.SetSlice(slice)
}

// expect checks which Services have news, and which are not served.
func (s *spenders) expect(when string, reported int, unserved ...string) {
	s.Helper()
	if got := s.Changes().OverBudget; len(got) != reported {
		s.Errorf("%s: reported are %v, want %d", when, got, reported)
	}
	var got []string
	for name, e := range s.services {
		if e.service == nil {
			continue
		}
		beyond := e.overBudget.Weight > 0
		if served := len(s.FrontendsOf(name)) > 0; served == beyond {
			s.Errorf("%s: %s is served: %t, and beyond the budget: %t", when, name, served, beyond)
		}
		if beyond {
			got = append(got, name.String())
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, unserved) {
		s.Errorf("%s: not served are %q, want %q", when, got, unserved)
	}
}

func everySpenders(t *testing.T, b Budget, test func(*spenders)) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		test(&spenders{t, NewServiceMap(Options{Budget: b}, thisNode), f, p})
	})
}

func TestAServiceBeyondItsNamespacesBudgetIsNotServedUntilItNeedsLess(t *testing.T) {
	everySpenders(t, Budget{PerNamespace: 10}, func(s *spenders) {
		s.set("a", "heavy", 1, 10)
		s.set("b", "other", 2, 10)
		s.expect("with as much as may be", 0)
		s.set("a", "heavy", 1, 11)
		s.expect("with more", 1, "a/heavy")
		s.set("a", "heavy", 1, 12)
		s.expect("with still more", 0, "a/heavy")
		s.set("a", "heavy", 1, 9)
		s.expect("with less", 1)
		s.set("a", "heavy", 1, 11)
		s.expect("again", 1, "a/heavy")
		s.DeleteService(ServiceName{"a", "heavy"})
		s.expect("gone", 1)
	})
}

func TestTheOlderServicesOfANamespaceAreServed(t *testing.T) {
	everySpenders(t, Budget{PerNamespace: 10}, func(s *spenders) {
		for i := range 5 {
			s.set("a", fmt.Sprintf("s%d", i), int64(i), 3)
		}
		s.set("b", "other", 9, 3)
		s.expect("three fit", 2, "a/s3", "a/s4")
		s.set("a", "s4", 4, 1)
		s.expect("a small one fits beside them", 1, "a/s3")
		s.set("a", "s0", 0, 8)
		s.expect("the oldest grows", 2, "a/s1", "a/s2", "a/s3")
		s.DeleteService(ServiceName{"a", "s0"})
		s.expect("the oldest goes", 3)
	})
}

// TestTheLargestNamespacesGiveWay has three namespaces that together want more than
// there is: the one within its share is not touched.
func TestTheLargestNamespacesGiveWay(t *testing.T) {
	everySpenders(t, Budget{PerNamespace: 100, Total: 20}, func(s *spenders) {
		s.set("small", "s", 7, 4)
		for i := range 4 {
			s.set("big", fmt.Sprintf("s%d", i), int64(i), 4)
		}
		s.expect("within the total", 0)
		s.set("bigger", "s", 9, 9)
		s.expect("beyond it, 8 for each of two", 3, "big/s2", "big/s3", "bigger/s")
		s.set("bigger", "s", 9, 8)
		s.expect("one is content", 1, "big/s2", "big/s3")
		s.DeleteService(ServiceName{"bigger", "s"})
		s.expect("enough again", 2)
	})
}

func TestEndpointsThatRememberClientsHaveALimitOfTheirOwn(t *testing.T) {
	everySpenders(t, Budget{PerNamespace: 10_000, AffinityEndpoints: 5}, func(s *spenders) {
		for _, n := range []int{5, 6} {
			service, slice := spender("a", "sticky", 1, s.f, s.p, n+1)
			service.Affinity = time.Hour
			s.SetService(service)
			s.SetSlice(slice)
			if n == 5 {
				s.expect("5 of them", 0)
			} else {
				s.expect("6 of them", 1, "a/sticky")
			}
		}
	})
}
