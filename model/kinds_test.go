package model

import (
	"fmt"
	"slices"
	"testing"
)

// every runs a test in each family for each protocol.
func every(t *testing.T, test func(*testing.T, Family, Protocol)) {
	t.Helper()
	for _, f := range Families {
		for _, p := range Protocols {
			t.Run(f.String()+" "+p.String(), func(t *testing.T) { test(t, f, p) })
		}
	}
}

// both returns slices of web with the same pods in each family.
func both(p Protocol, pods ...pod) []EndpointSlice {
	return []EndpointSlice{webSlice(IPv4, p, pods...), webSlice(IPv6, p, pods...)}
}

// byKind returns the frontends of one family by their kind.
func byKind(t *testing.T, frontends []Frontend) map[Kind]*Frontend {
	t.Helper()
	out := map[Kind]*Frontend{}
	for i := range frontends {
		if twice := out[frontends[i].Kind]; twice != nil {
			t.Fatalf("%s is at %s and %s", twice.Kind, twice.Match, frontends[i].Match)
		}
		out[frontends[i].Kind] = &frontends[i]
	}
	return out
}

// only returns webAllKinds with no other addresses than the ClusterIP and those of the
// given kinds.
func only(s Service, kinds ...Kind) Service {
	if !slices.Contains(kinds, KindNodePort) {
		s.Ports = slices.Clone(s.Ports)
		s.Ports[0].NodePort = 0
	}
	if !slices.Contains(kinds, KindLoadBalancerIP) {
		s.LoadBalancerIPs = nil
	}
	if !slices.Contains(kinds, KindExternalIP) {
		s.ExternalIPs = nil
	}
	return s
}

func TestEveryAddressIsAFrontendOfItsKind(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		s := webAllKinds(p, Families[:]...)
		s.LoadBalancerIPs = append(s.LoadBalancerIPs, externalIP(f, 3))
		var got, want []string
		for _, fe := range (Options{}).frontendsOf(&s, both(p, ready(1)), thisNode) {
			if fe.Service != httpPort(p) {
				t.Errorf("%s is of %s", fe.Match, fe.Service)
			}
			if fe.Match.Family == f {
				got = append(got, fmt.Sprint(fe.Kind, " ", fe.Match))
			}
		}
		for _, k := range []Kind{KindClusterIP, KindNodePort, KindLoadBalancerIP} {
			want = append(want, fmt.Sprint(k, " ", webMatch(k, f, p)))
		}
		want = append(want,
			fmt.Sprint(KindLoadBalancerIP, " ", Match{externalIP(f, 3), 80, f, p}),
			fmt.Sprint(KindExternalIP, " ", webMatch(KindExternalIP, f, p)))
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", lines(got), lines(want))
		}
	})
}

func TestFamilyWithoutClusterIPHasNoFrontends(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		s := webAllKinds(p, Families[:]...)
		s.ClusterIPs = s.ClusterIPs[f : f+1]
		got := Options{}.frontendsOf(&s, both(p, ready(1)), thisNode)
		if len(got) != len(kinds) {
			t.Errorf("got\n%s", frontendLines(got))
		}
		for _, fe := range got {
			if fe.Match.Family != f {
				t.Errorf("got %s", fe.Match)
			}
		}
	})
}

func TestFirstClusterIPOfFamilyIsUsed(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		s := webService(p, f)
		s.ClusterIPs = append(s.ClusterIPs, clusterIP(f, 11))
		got := Options{}.frontendsOf(&s, both(p, ready(1)), thisNode)
		if len(got) != 1 || got[0].Match != webMatch(KindClusterIP, f, p) {
			t.Errorf("got\n%s", frontendLines(got))
		}
	})
}

// kindsTest says which lists a pool has, given the kinds of addresses besides the
// ClusterIP, and the policies.
type kindsTest struct {
	kinds              []Kind
	internal, external TrafficPolicy
	cluster, local     bool
}

func (test kindsTest) String() string {
	policies := [...]string{PolicyCluster: "Cluster", PolicyLocal: "Local"}
	return fmt.Sprintf("%v internal %s external %s", test.kinds, policies[test.internal], policies[test.external])
}

// kindsTests returns every set of kinds with every pair of policies. Internal traffic
// needs one list. External traffic needs all endpoints, for pods and the node, and with
// a Local policy also the local ones.
func kindsTests() []kindsTest {
	tests := []kindsTest{
		{nil, PolicyCluster, PolicyCluster, true, false},
		{nil, PolicyCluster, PolicyLocal, true, false},
		{nil, PolicyLocal, PolicyCluster, false, true},
		{nil, PolicyLocal, PolicyLocal, false, true},
	}
	for _, kinds := range [][]Kind{
		{KindNodePort}, {KindLoadBalancerIP}, {KindExternalIP}, {KindNodePort, KindLoadBalancerIP}, {KindNodePort, KindLoadBalancerIP, KindExternalIP},
	} {
		tests = append(tests,
			kindsTest{kinds, PolicyCluster, PolicyCluster, true, false},
			kindsTest{kinds, PolicyCluster, PolicyLocal, true, true},
			kindsTest{kinds, PolicyLocal, PolicyCluster, true, true},
			kindsTest{kinds, PolicyLocal, PolicyLocal, true, true})
	}
	return tests
}

func TestPoolHasListsThatFrontendsNeed(t *testing.T) {
	for _, test := range kindsTests() {
		t.Run(test.String(), func(t *testing.T) {
			every(t, test.check)
		})
	}
}

// check checks the frontends of the test's kinds and policies, and their pool.
func (test kindsTest) check(t *testing.T, f Family, p Protocol) {
	s := only(webAllKinds(p, f), test.kinds...)
	s.InternalPolicy, s.ExternalPolicy = test.internal, test.external
	pods := []pod{ready(1).on(here), ready(2).on(there), servingTerminating(3).on(there)}
	got := byKind(t, Options{DetectsPods: [...]bool{true, true}}.frontendsOf(&s, both(p, pods...), thisNode))
	if len(got) != 1+len(test.kinds) {
		t.Fatalf("%d frontends", len(got))
	}
	pool := got[KindClusterIP].Pool
	want := Pool{Key: webMatch(KindClusterIP, f, p), Scheduler: SchedulerRandom, Hairpin: podIPs(f, 1), FlowEndpoints: flowsOf(f, p, pods...)}
	if test.cluster {
		want.Cluster = podPorts(f, 1, 2)
	}
	if test.local {
		want.Local = podPorts(f, 1)
	}
	if !pool.equal(&want) {
		t.Errorf("got pool\n\t%+v\nwant\n\t%+v", *pool, want)
	}
	for kind, fe := range got {
		wanted := Frontend{
			Match: webMatch(kind, f, p), Kind: kind, Service: httpPort(p), Policy: test.external, Pool: pool,
		}
		switch {
		case kind == KindClusterIP:
			wanted.Policy, wanted.Masquerade = test.internal, MasqueradeOffPod
		case test.external == PolicyCluster:
			wanted.Masquerade = MasqueradeAlways
		}
		checkExactly(t, []Frontend{*fe}, []Frontend{wanted})
		if fe.Pool != pool || fe.IsClusterIP() != (kind == KindClusterIP) {
			t.Errorf("%s: owner %v of pool %p, want %p", kind, fe.IsClusterIP(), fe.Pool, pool)
		}
		if short := kind != KindClusterIP && test.external == PolicyLocal; fe.BypassesPolicy() != short || !fe.Served() {
			t.Errorf("%s: short circuit %v, want %v; served %v", kind, fe.BypassesPolicy(), short, fe.Served())
		}
	}
}

// The masquerading of external traffic depends on the policy alone, and not on whether
// the node detects pods.
func TestExternalMasqueradeDependsOnPolicyOnly(t *testing.T) {
	for _, o := range []Options{
		{}, {MasqueradeAll: true}, {DetectsPods: [...]bool{true, true}}, {MasqueradeAll: true, DetectsPods: [...]bool{true, true}},
	} {
		for policy, want := range map[TrafficPolicy]Masquerade{PolicyCluster: MasqueradeAlways, PolicyLocal: MasqueradeNever} {
			every(t, func(t *testing.T, f Family, p Protocol) {
				s := webAllKinds(p, f)
				s.ExternalPolicy = policy
				got := byKind(t, o.frontendsOf(&s, both(p, ready(1)), thisNode))
				for _, k := range []Kind{KindNodePort, KindLoadBalancerIP, KindExternalIP} {
					if got[k].Masquerade != want {
						t.Errorf("%+v, policy %d: %s has %d, want %d", o, policy, k, got[k].Masquerade, want)
					}
				}
			})
		}
	}
}

func TestServicesShareALoadBalancerIPByPortAndProtocol(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{}, thisNode)
		want := map[Match]ServiceName{}
		for i, name := range []string{"a", "b", "c"} {
			s := webAllKinds(p, f)
			s.Name.Name = name
			s.ClusterIPs[0] = clusterIP(f, 20+i)
			s.ExternalIPs = nil
			s.Ports[0].Port += uint16(i)
			s.Ports[0].NodePort += uint16(i)
			m.SetService(s)
			want[Match{externalIP(f, 1), s.Ports[0].Port, f, p}] = s.Name
			want[Match{s.ClusterIPs[0], s.Ports[0].Port, f, p}] = s.Name
			want[Match{Family: f, Protocol: p, Port: s.Ports[0].NodePort}] = s.Name
		}
		got := m.Changes()
		checkConflicts(t, got)
		if len(got.Set) != len(want) {
			t.Errorf("set\n%s", frontendLines(got.Set))
		}
		for _, fe := range got.Set {
			if want[fe.Match] != fe.Service.ServiceName {
				t.Errorf("%s is %s's", fe.Match, fe.Service)
			}
		}
	})
}

func TestSchedulerOfServiceWinsOverOptions(t *testing.T) {
	tests := map[string]struct{ service, options, want Scheduler }{
		"neither":                               {want: SchedulerRandom},
		"only the options":                      {options: SchedulerMaglev, want: SchedulerMaglev},
		"only the Service":                      {service: SchedulerSourceHash, want: SchedulerSourceHash},
		"both":                                  {service: SchedulerRoundRobin, options: SchedulerMaglev, want: SchedulerRoundRobin},
		"both, and the Service has the default": {service: SchedulerRandom, options: SchedulerMaglev, want: SchedulerRandom},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			every(t, func(t *testing.T, f Family, p Protocol) {
				s := webAllKinds(p, f)
				s.Scheduler = test.service
				for _, fe := range (Options{Scheduler: test.options}).frontendsOf(&s, both(p, ready(1)), thisNode) {
					if fe.Pool.Scheduler != test.want {
						t.Errorf("%s: got %s", fe.Match, fe.Pool.Scheduler)
					}
				}
			})
		})
	}
}

func TestIgnoreExternalIPs(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		options := Options{IgnoreExternalIPs: true}
		s := webAllKinds(p, f)
		got := byKind(t, options.frontendsOf(&s, both(p, ready(1)), thisNode))
		if len(got) != 3 || got[KindExternalIP] != nil {
			t.Errorf("got %v", got)
		}
		// A Service with no other external address has only internal traffic.
		s = only(s, KindExternalIP)
		s.ExternalPolicy = PolicyLocal
		got = byKind(t, options.frontendsOf(&s, both(p, ready(1).on(here)), thisNode))
		if len(got) != 1 || len(got[KindClusterIP].Pool.Local) > 0 {
			t.Errorf("got %v", got)
		}

		m := allKindsMap(f, p)
		m.SetOptions(options)
		checkChanges(t, m.Changes(), nil, []Match{webMatch(KindExternalIP, f, p)})
		m.SetOptions(Options{})
		checkChanges(t, m.Changes(), []Match{webMatch(KindExternalIP, f, p)}, nil)
	})
}
