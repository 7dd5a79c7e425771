package model

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// checkChanges fails unless the changes are of exactly these matches.
func checkChanges(t *testing.T, got Changes, set, gone []Match) {
	t.Helper()
	if len(got.Set) != len(set) || !slices.EqualFunc(got.Set, set, func(f Frontend, m Match) bool { return f.Match == m }) {
		t.Errorf("set: got\n%s\nwant\n%s", frontendLines(got.Set), lines(set))
	}
	if !slices.Equal(got.Gone, gone) {
		t.Errorf("gone: got\n%s\nwant\n%s", lines(got.Gone), lines(gone))
	}
}

// allKindsMap returns a map with webAllKinds of one family, with pod 1 on this node and
// pod 2 on another. Changes has been called.
func allKindsMap(f Family, p Protocol, changes ...func(*Service)) *ServiceMap {
	m := NewServiceMap(Options{}, thisNode)
	m.SetService(changed(webAllKinds(p, f), changes...))
	m.SetSlice(webSlice(f, p, ready(1).on(here), ready(2).on(there)))
	m.Changes()
	return m
}

// serviceTest is a changed Service with the frontends that are set and gone.
type serviceTest struct {
	before, after func(*Service)
	set, gone     []Kind
	// moved are kinds whose frontends are gone, and set at other matches.
	moved []Kind
}

func (test serviceTest) check(t *testing.T, f Family, p Protocol) {
	m := allKindsMap(f, p, test.before)
	before := m.Frontends()
	m.SetService(changed(webAllKinds(p, f), test.after))
	got := m.Changes()
	var set, gone []Match
	for _, fe := range m.Frontends() {
		if slices.Contains(test.set, fe.Kind) || slices.Contains(test.moved, fe.Kind) {
			set = append(set, fe.Match)
		}
	}
	for _, fe := range before {
		if slices.Contains(test.gone, fe.Kind) || slices.Contains(test.moved, fe.Kind) {
			gone = append(gone, fe.Match)
		}
	}
	checkChanges(t, got, set, gone)
	checkConflicts(t, got)
	if len(set) != len(test.set)+len(test.moved) || len(gone) != len(test.gone)+len(test.moved) {
		t.Errorf("before\n%s\nafter\n%s", frontendLines(before), frontendLines(m.Frontends()))
	}
	for _, fe := range got.Set {
		if owner := got.pool(fe.Pool.Key); owner != nil && owner != fe.Pool {
			t.Errorf("%s has pool %+v instead of %+v", fe.Match, *fe.Pool, *owner)
		}
	}
	m.DeleteService(web)
	m.DeleteSlice(webSlice(f, p).Name)
	m.Changes()
	checkEmpty(t, m)
}

// pool returns the pool that the changes set at its key, or nil.
func (c Changes) pool(key Match) *Pool {
	for _, fe := range c.Set {
		if fe.Match == key {
			return fe.Pool
		}
	}
	return nil
}

// The types of Services, as changes of webAllKinds.
func clusterIPType(s *Service) { *s = only(*s) }
func nodePortType(s *Service)  { *s = only(*s, KindNodePort) }
func balancerType(s *Service)  { *s = only(*s, KindNodePort, KindLoadBalancerIP) }
func anyType(*Service)         {}

// and makes the changes one after the other.
func and(changes ...func(*Service)) func(*Service) {
	return func(s *Service) {
		for _, change := range changes {
			change(s)
		}
	}
}

func externalLocal(s *Service) { s.ExternalPolicy = PolicyLocal }
func internalLocal(s *Service) { s.InternalPolicy = PolicyLocal }
func named(name string) func(*Service) {
	return func(s *Service) { s.Ports[0].Name = name }
}

var externalKinds = []Kind{KindNodePort, KindLoadBalancerIP, KindExternalIP}

func TestServiceChangeSetsOnlyChangedFrontends(t *testing.T) {
	tests := map[string]serviceTest{
		"nothing": {anyType, anyType, nil, nil, nil},

		"its type, from ClusterIP to NodePort":             {clusterIPType, nodePortType, []Kind{KindNodePort}, nil, nil},
		"its type, from NodePort to LoadBalancer":          {nodePortType, balancerType, []Kind{KindLoadBalancerIP}, nil, nil},
		"its type, from ClusterIP to LoadBalancer":         {clusterIPType, balancerType, []Kind{KindNodePort, KindLoadBalancerIP}, nil, nil},
		"its type, from LoadBalancer to NodePort":          {balancerType, nodePortType, nil, []Kind{KindLoadBalancerIP}, nil},
		"its type, from LoadBalancer to ClusterIP":         {balancerType, clusterIPType, nil, []Kind{KindNodePort, KindLoadBalancerIP}, nil},
		"its type, from anything to one without ClusterIP": {anyType, func(s *Service) { s.ClusterIPs = nil }, nil, kinds[:], nil},

		// The first external address needs the cluster list, and with a Local policy also
		// the local one.
		"its type, with a Local external policy": {
			clusterIPType, and(nodePortType, externalLocal), []Kind{KindClusterIP, KindNodePort}, nil, nil,
		},
		"its type, with a Local internal policy": {
			and(clusterIPType, internalLocal), and(nodePortType, internalLocal), []Kind{KindClusterIP, KindNodePort}, nil, nil,
		},
		"its type, back from that": {
			and(nodePortType, internalLocal), and(clusterIPType, internalLocal), []Kind{KindClusterIP}, []Kind{KindNodePort}, nil,
		},
		"its external policy, without an external address": {clusterIPType, and(clusterIPType, externalLocal), nil, nil, nil},

		"its external policy": {anyType, externalLocal, kinds[:], nil, nil},
		"its internal policy": {anyType, internalLocal, kinds[:], nil, nil},
		"its internal policy, to the Local of the external one": {externalLocal, and(externalLocal, internalLocal), []Kind{KindClusterIP}, nil, nil},

		"its external IP":      {anyType, func(s *Service) { s.ExternalIPs[0] = s.ExternalIPs[0].Next() }, nil, nil, []Kind{KindExternalIP}},
		"no external IP":       {anyType, balancerType, nil, []Kind{KindExternalIP}, nil},
		"its load balancer IP": {anyType, func(s *Service) { s.LoadBalancerIPs[0] = s.ExternalIPs[0].Next() }, nil, nil, []Kind{KindLoadBalancerIP}},
		"its ClusterIP": {
			anyType, func(s *Service) { s.ClusterIPs[0] = s.ClusterIPs[0].Next() }, externalKinds, nil, []Kind{KindClusterIP},
		},

		"its port's name":   {anyType, named("web"), kinds[:], nil, nil},
		"its port's number": {anyType, func(s *Service) { s.Ports[0].Port++ }, []Kind{KindNodePort}, nil, []Kind{KindClusterIP, KindLoadBalancerIP, KindExternalIP}},
		"its node port":     {anyType, func(s *Service) { s.Ports[0].NodePort++ }, nil, nil, []Kind{KindNodePort}},
		"no node port":      {anyType, func(s *Service) { s.Ports[0].NodePort = 0 }, nil, []Kind{KindNodePort}, nil},
		"no port":           {anyType, func(s *Service) { s.Ports = nil }, nil, kinds[:], nil},
		"its protocol":      {anyType, func(s *Service) { s.Ports[0].Protocol = otherProtocol[s.Ports[0].Protocol] }, nil, nil, kinds[:]},

		"affinity":                    {anyType, func(s *Service) { s.Affinity = time.Hour }, kinds[:], nil, nil},
		"how long it lasts":           {func(s *Service) { s.Affinity = time.Minute }, func(s *Service) { s.Affinity = time.Hour }, kinds[:], nil, nil},
		"that it lasts a second more": {func(s *Service) { s.Affinity = time.Hour - time.Second }, func(s *Service) { s.Affinity = time.Hour }, nil, nil, nil},
		"no affinity":                 {func(s *Service) { s.Affinity = time.Hour }, anyType, kinds[:], nil, nil},
		"its scheduler":               {anyType, func(s *Service) { s.Scheduler = SchedulerMaglev }, kinds[:], nil, nil},
		"its scheduler, to the default one by name": {anyType, func(s *Service) { s.Scheduler = SchedulerRandom }, nil, nil, nil},
		"its source ranges": {anyType, func(s *Service) {
			for _, f := range Families {
				s.SourceRanges = append(s.SourceRanges, sourceRange(f, 128, 25))
			}
		}, []Kind{KindLoadBalancerIP}, nil, nil},
		"its age":               {anyType, func(s *Service) { s.Created++ }, nil, nil, nil},
		"its UID":               {anyType, func(s *Service) { s.UID = "x" }, nil, nil, nil},
		"its health check port": {anyType, func(s *Service) { s.HealthCheckNodePort = 31000 }, nil, nil, nil},
		"its external IP is a load balancer IP too": {
			anyType, func(s *Service) { s.LoadBalancerIPs[0] = s.ExternalIPs[0] }, []Kind{KindLoadBalancerIP}, []Kind{KindLoadBalancerIP}, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { every(t, test.check) })
	}
}

func TestPortsAreAddedAndRemovedSeparately(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := allKindsMap(f, p)
		var admin []Match
		for _, k := range kinds {
			match := webMatch(k, f, p)
			if match.Port = 9000; k == KindNodePort {
				match.Port = 30090
			}
			admin = append(admin, match)
		}
		m.SetService(changed(webAllKinds(p, f), func(s *Service) {
			s.Ports = append([]ServicePort{{"admin", p, 9000, 30090}}, s.Ports...)
		}))
		got := m.Changes()
		checkChanges(t, got, admin, nil)
		for _, fe := range got.Set {
			if fe.Verdict != VerdictReject {
				t.Errorf("%s: without endpoints the verdict is %d", fe.Match, fe.Verdict)
			}
		}
		m.SetService(webAllKinds(p, f))
		checkChanges(t, m.Changes(), nil, admin)
	})
}

// Two ports swap their numbers.
func TestPortsThatSwapNumbersAreSet(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		twoPorts := func(a, b uint16) func(*Service) {
			return func(s *Service) { s.Ports = []ServicePort{{"http", p, a, 0}, {"admin", p, b, 0}} }
		}
		m := allKindsMap(f, p, twoPorts(80, 9000))
		m.SetService(changed(webAllKinds(p, f), twoPorts(9000, 80)))
		var set []Match
		for _, a := range []netip.Addr{clusterIP(f, 10), externalIP(f, 1), externalIP(f, 2)} {
			set = append(set, Match{a, 80, f, p}, Match{a, 9000, f, p})
		}
		got := m.Changes()
		checkChanges(t, got, set, nil)
		checkConflicts(t, got)
		for _, fe := range got.Set {
			if (fe.Service.Port == "http") != (fe.Match.Port == 9000) {
				t.Errorf("%s is %s", fe.Match, fe.Service)
			}
		}
	})
}

// webMatches returns the matches of webAllKinds, sorted.
func webMatches(f Family, p Protocol) []Match {
	var out []Match
	for _, k := range kinds {
		out = append(out, webMatch(k, f, p))
	}
	return out
}

func TestFamilyIsAddedAndRemovedSeparately(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		other := IPv4 + IPv6 - f
		m := allKindsMap(f, p)
		m.SetSlice(webSlice(other, p, ready(1)))
		checkNothing(t, m.Changes())
		m.SetService(webAllKinds(p, f, other))
		checkChanges(t, m.Changes(), webMatches(other, p), nil)
		m.SetService(webAllKinds(p, f))
		checkChanges(t, m.Changes(), nil, webMatches(other, p))
	})
}
