package model

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// postpone applies the changes of the namespaces that are not postponed, and checks that
// the others hold only what they still claim.
func (h *history) postpone(waiting string) {
	h.apply(h.m.ChangesExcept(func(namespace string) bool { return strings.Contains(waiting, namespace) }))
	h.postponed = true
	h.checkPools()
	for m, f := range h.programmed {
		if s, exists := h.now.services[f.Service.ServiceName]; !exists || !claimsNow(&s, &f) {
			h.Errorf("%s is served for %s, which does not claim it", m, f.Service)
		}
	}
}

// claimsNow reports whether a Service has the address and port of a frontend.
func claimsNow(s *Service, f *Frontend) bool {
	addrs := map[Kind][]netip.Addr{KindClusterIP: s.ClusterIPs, KindExternalIP: s.ExternalIPs, KindLoadBalancerIP: s.LoadBalancerIPs}
	return slices.ContainsFunc(s.Ports, func(p ServicePort) bool {
		if f.Kind == KindNodePort {
			return p.Protocol == f.Match.Protocol && p.NodePort == f.Match.Port
		}
		return p.Protocol == f.Match.Protocol && p.Port == f.Match.Port && slices.Contains(addrs[f.Kind], f.Match.Addr)
	})
}

// A postponeTest has the Service a/s with the first address, which is served.
type postponeTest struct {
	budgetTest
	first netip.Addr
}

func everyPostponed(t *testing.T, test func(*postponeTest)) {
	everyBudget(t, Budget{}, func(b *budgetTest) {
		s := &postponeTest{*b, clusterIP(b.f, 1)}
		s.set("a", 1, 2)
		s.Changes()
		test(s)
	})
}

// set adds the Service s of a namespace, with endpoints.
func (s *postponeTest) set(namespace string, created int64, endpoints int) {
	s.setService(namespace, "s", created, 1, endpoints)
}

// change returns the changes while namespace a is postponed.
func (s *postponeTest) change() Changes {
	return s.ChangesExcept(func(namespace string) bool { return namespace == "a" })
}

// expect checks which Service serves an address, with how many endpoints.
func (s *postponeTest) expect(when string, a netip.Addr, want string, endpoints int) {
	s.Helper()
	name, n := "", 0
	for _, f := range s.Frontends() {
		if f.Match.Addr == a {
			name, n = f.Service.ServiceName.String(), len(f.Pool.Cluster)
		}
	}
	if name != want || n != endpoints {
		s.Errorf("%s: %s is served by %q with %d endpoints, want %q with %d", when, a, name, n, want, endpoints)
	}
}

func TestChangesOfOtherNamespacesDoNotWait(t *testing.T) {
	everyPostponed(t, func(s *postponeTest) {
		s.set("a", 1, 4)
		s.set("b", 2, 3)
		c := s.change()
		if !slices.Equal(c.Postponed, []string{"a"}) || len(c.Work) != 1 || c.Work["b"] <= 0 {
			s.Errorf("postponed %v, work %v", c.Postponed, c.Work)
		}
		s.expect("while a waits", s.first, "a/s", 2)
		s.expect("while a waits", clusterIP(s.f, 2), "b/s", 3)
		if c := s.Changes(); len(c.Postponed) > 0 || len(c.Set) != 1 || c.Work["a"] == 0 {
			s.Errorf("then: %+v", c)
		}
		s.expect("then", s.first, "a/s", 4)
	})
}

func TestDeletedServiceDoesNotWait(t *testing.T) {
	everyPostponed(t, func(s *postponeTest) {
		s.DeleteService(ServiceName{"a", "s"})
		s.change()
		s.expect("deleted", s.first, "", 0)
		s.set("a", 1, 3)
		s.change()
		s.expect("created again", s.first, "", 0)
		s.set("b", 1, 2)
		s.change()
		s.expect("another one took it", s.first, "b/s", 2)
	})
}

func TestAddressThatIsGivenUpDoesNotWait(t *testing.T) {
	everyPostponed(t, func(s *postponeTest) {
		s.set("a", 5, 3)
		s.set("b", 1, 2)
		s.change()
		s.expect("given up", s.first, "b/s", 2)
		s.expect("while it waits", clusterIP(s.f, 5), "", 0)
		s.change()
		s.expect("while it still waits", clusterIP(s.f, 5), "", 0)
		s.Changes()
		s.expect("then", clusterIP(s.f, 5), "a/s", 3)
	})
}

func TestChangesOfTheNodeDoNotWait(t *testing.T) {
	everyPostponed(t, func(s *postponeTest) {
		s.set("a", 1, 4)
		n := thisNode
		n.Zone = "another"
		s.SetNode(n)
		if c := s.change(); len(c.Postponed) > 0 || c.Work != nil {
			s.Errorf("postponed %v, work %v", c.Postponed, c.Work)
		}
		s.expect("with another node", s.first, "a/s", 4)
	})
}
