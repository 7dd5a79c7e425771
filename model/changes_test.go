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

// everywhereMap knows webEverywhere of one family, with pod 1 of this node and
// pod 2 of another, and has said so.
func everywhereMap(f Family, p Protocol, changes ...func(*Service)) *ServiceMap {
	m := NewServiceMap(Options{}, thisNode)
	m.SetService(changed(webEverywhere(p, f), changes...))
	m.SetSlice(webSlice(f, p, ready(1).on(here), ready(2).on(there)))
	m.Changes()
	return m
}

// serviceTest is a Service that becomes another: which frontends are set, and
// which are gone.
type serviceTest struct {
	before, after func(*Service)
	set, gone     []Kind
	// moved are kinds whose frontends are gone and set at other matches; the
	// matches are those of after, found by their kind.
	moved []Kind
}

func (test serviceTest) check(t *testing.T, f Family, p Protocol) {
	m := everywhereMap(f, p, test.before)
	before := m.Frontends()
	m.SetService(changed(webEverywhere(p, f), test.after))
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
			t.Errorf("%s leads to %+v instead of %+v", fe.Match, *fe.Pool, *owner)
		}
	}
	m.DeleteService(web)
	m.DeleteSlice(webSlice(f, p).Name)
	m.Changes()
	checkEmpty(t, m)
}

// pool is the pool that the changes set at its key, or nil.
func (c Changes) pool(key Match) *Pool {
	for _, fe := range c.Set {
		if fe.Match == key {
			return fe.Pool
		}
	}
	return nil
}

// Services of each type, as functions that make webEverywhere one.
func clusterIPType(s *Service) { *s = only(*s) }
func nodePortType(s *Service)  { *s = only(*s, KindNodePort) }
func balancerType(s *Service)  { *s = only(*s, KindNodePort, KindLoadBalancerIP) }
func anyType(*Service)         {}

// and does one after the other.
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

var outsideKinds = []Kind{KindNodePort, KindLoadBalancerIP, KindExternalIP}

func TestAServiceThatChangesSetsWhatChangedAndNothingElse(t *testing.T) {
	tests := map[string]serviceTest{
		"nothing": {anyType, anyType, nil, nil, nil},

		"its type, from ClusterIP to NodePort":             {clusterIPType, nodePortType, []Kind{KindNodePort}, nil, nil},
		"its type, from NodePort to LoadBalancer":          {nodePortType, balancerType, []Kind{KindLoadBalancerIP}, nil, nil},
		"its type, from ClusterIP to LoadBalancer":         {clusterIPType, balancerType, []Kind{KindNodePort, KindLoadBalancerIP}, nil, nil},
		"its type, from LoadBalancer to NodePort":          {balancerType, nodePortType, nil, []Kind{KindLoadBalancerIP}, nil},
		"its type, from LoadBalancer to ClusterIP":         {balancerType, clusterIPType, nil, []Kind{KindNodePort, KindLoadBalancerIP}, nil},
		"its type, from anything to one without ClusterIP": {anyType, func(s *Service) { s.ClusterIPs = nil }, nil, kinds[:], nil},

		// The first address from outside with a Local policy asks for the local list,
		// and the first at all for the one of the cluster.
		"its type, with a Local policy outside": {
			clusterIPType, and(nodePortType, externalLocal), []Kind{KindClusterIP, KindNodePort}, nil, nil,
		},
		"its type, with a Local policy inside": {
			and(clusterIPType, internalLocal), and(nodePortType, internalLocal), []Kind{KindClusterIP, KindNodePort}, nil, nil,
		},
		"its type, back from that": {
			and(nodePortType, internalLocal), and(clusterIPType, internalLocal), []Kind{KindClusterIP}, []Kind{KindNodePort}, nil,
		},
		"its policy outside, without anything outside": {clusterIPType, and(clusterIPType, externalLocal), nil, nil, nil},

		"its policy outside":                {anyType, externalLocal, kinds[:], nil, nil},
		"its policy inside":                 {anyType, internalLocal, kinds[:], nil, nil},
		"its policy inside, Local by Local": {externalLocal, and(externalLocal, internalLocal), []Kind{KindClusterIP}, nil, nil},

		"its external IP":      {anyType, func(s *Service) { s.ExternalIPs[0] = s.ExternalIPs[0].Next() }, nil, nil, []Kind{KindExternalIP}},
		"no external IP":       {anyType, balancerType, nil, []Kind{KindExternalIP}, nil},
		"its load balancer IP": {anyType, func(s *Service) { s.LoadBalancerIPs[0] = s.ExternalIPs[0].Next() }, nil, nil, []Kind{KindLoadBalancerIP}},
		"its ClusterIP": {
			anyType, func(s *Service) { s.ClusterIPs[0] = s.ClusterIPs[0].Next() }, outsideKinds, nil, []Kind{KindClusterIP},
		},

		"its port's name":   {anyType, named("web"), kinds[:], nil, nil},
		"its port's number": {anyType, func(s *Service) { s.Ports[0].Port++ }, []Kind{KindNodePort}, nil, []Kind{KindClusterIP, KindLoadBalancerIP, KindExternalIP}},
		"its node port":     {anyType, func(s *Service) { s.Ports[0].NodePort++ }, nil, nil, []Kind{KindNodePort}},
		"no node port":      {anyType, func(s *Service) { s.Ports[0].NodePort = 0 }, nil, []Kind{KindNodePort}, nil},
		"no port":           {anyType, func(s *Service) { s.Ports = nil }, nil, kinds[:], nil},
		"its protocol":      {anyType, func(s *Service) { s.Ports[0].Protocol = otherProtocol[s.Ports[0].Protocol] }, nil, nil, kinds[:]},

		"affinity":                        {anyType, func(s *Service) { s.Affinity = time.Hour }, kinds[:], nil, nil},
		"how long it lasts":               {func(s *Service) { s.Affinity = time.Minute }, func(s *Service) { s.Affinity = time.Hour }, []Kind{KindClusterIP}, nil, nil},
		"no affinity":                     {func(s *Service) { s.Affinity = time.Hour }, anyType, kinds[:], nil, nil},
		"its scheduler":                   {anyType, func(s *Service) { s.Scheduler = SchedulerMaglev }, kinds[:], nil, nil},
		"its scheduler, but only by word": {anyType, func(s *Service) { s.Scheduler = SchedulerRandom }, nil, nil, nil},
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

func TestAServiceWithMoreOfAKindSetsWhatIsNewAndNothingElse(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := everywhereMap(f, p)
		more := changed(webEverywhere(p, f), func(s *Service) {
			s.LoadBalancerIPs = append(s.LoadBalancerIPs, outsideIP(f, 3))
			s.ExternalIPs = append(s.ExternalIPs, outsideIP(f, 4), outsideIP(f, 5))
		})
		m.SetService(more)
		var added []Match
		for k := 3; k <= 5; k++ {
			added = append(added, Match{f, outsideIP(f, k), p, 80})
		}
		checkChanges(t, m.Changes(), added, nil)
		m.SetService(webEverywhere(p, f))
		checkChanges(t, m.Changes(), nil, added)
	})
}

func TestPortsComeAndGoEachByItself(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := everywhereMap(f, p)
		var admin []Match
		for _, k := range kinds {
			match := webMatch(k, f, p)
			if match.Port = 9000; k == KindNodePort {
				match.Port = 30090
			}
			admin = append(admin, match)
		}
		m.SetService(changed(webEverywhere(p, f), func(s *Service) {
			s.Ports = append([]ServicePort{{"admin", p, 9000, 30090}}, s.Ports...)
		}))
		got := m.Changes()
		checkChanges(t, got, admin, nil)
		for _, fe := range got.Set {
			if fe.Verdict != VerdictReject {
				t.Errorf("%s: nobody offers it, and the verdict is %d", fe.Match, fe.Verdict)
			}
		}
		m.SetService(webEverywhere(p, f))
		checkChanges(t, m.Changes(), nil, admin)
	})
}

// A port that takes another's number, and gives that its own.
func TestPortsThatSwapTheirNumbersAreSetAndNotGone(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		twoPorts := func(a, b uint16) func(*Service) {
			return func(s *Service) { s.Ports = []ServicePort{{"http", p, a, 0}, {"admin", p, b, 0}} }
		}
		m := everywhereMap(f, p, twoPorts(80, 9000))
		m.SetService(changed(webEverywhere(p, f), twoPorts(9000, 80)))
		var set []Match
		for _, a := range []netip.Addr{clusterIP(f, 10), outsideIP(f, 1), outsideIP(f, 2)} {
			set = append(set, Match{f, a, p, 80}, Match{f, a, p, 9000})
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

func TestARenamedPortIsServedWhenItsSliceIsRenamedToo(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := everywhereMap(f, p)
		renamed := webSlice(f, p, ready(1).on(here), ready(2).on(there))
		renamed.Ports[0].Name = "web"
		for _, step := range []struct {
			what    string
			event   func()
			verdict Verdict
		}{
			{"the Service alone", func() { m.SetService(changed(webEverywhere(p, f), named("web"))) }, VerdictReject},
			{"the slice too", func() { m.SetSlice(renamed) }, VerdictBalance},
			{"both back at once", func() {
				m.SetService(webEverywhere(p, f))
				m.SetSlice(webSlice(f, p, ready(1).on(here), ready(2).on(there)))
			}, VerdictBalance},
		} {
			step.event()
			got := m.Changes()
			checkChanges(t, got, webMatches(f, p), nil)
			for _, fe := range got.Set {
				if fe.Verdict != step.verdict {
					t.Errorf("%s: %s has verdict %d", step.what, fe.Match, fe.Verdict)
				}
			}
		}
	})
}

// webMatches are where webEverywhere is to be found, sorted.
func webMatches(f Family, p Protocol) []Match {
	var out []Match
	for _, k := range kinds {
		out = append(out, webMatch(k, f, p))
	}
	return out
}

func TestASecondFamilyComesAndGoesByItself(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		other := IPv4 + IPv6 - f
		m := everywhereMap(f, p)
		m.SetSlice(webSlice(other, p, ready(1)))
		checkNothing(t, m.Changes())
		m.SetService(webEverywhere(p, f, other))
		checkChanges(t, m.Changes(), webMatches(other, p), nil)
		m.SetService(webEverywhere(p, f))
		checkChanges(t, m.Changes(), nil, webMatches(other, p))
	})
}
