package model

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

// webFrontends are the frontends of web with the given pods, in both families.
func webFrontends(o Options, p Protocol, policy TrafficPolicy, pods ...pod) []Frontend {
	s := webService(p, IPv4, IPv6)
	s.InternalPolicy = policy
	return o.frontendsOf(&s, []EndpointSlice{webSlice(IPv4, p, pods...), webSlice(IPv6, p, pods...)}, thisNode)
}

func TestTheInternalPolicyChoosesTheEndpoints(t *testing.T) {
	tests := map[string]struct {
		policy    TrafficPolicy
		pods      []pod
		verdict   Verdict
		endpoints []int
		hairpin   []int
	}{
		"Cluster: all of them": {
			pods:      []pod{ready(1).on(here), ready(2).on(there)},
			endpoints: []int{1, 2}, hairpin: []int{1},
		},
		"Cluster: rejects if there is none": {verdict: VerdictReject},
		"Cluster: rejects if none can serve": {
			pods: []pod{notReady(1).on(here), dying(2)}, verdict: VerdictReject,
		},
		"Cluster: terminating ones if there is no other": {
			pods: []pod{draining(1), notReady(2)}, endpoints: []int{1},
		},
		"Local: the one of this node": {
			policy:    PolicyLocal,
			pods:      []pod{ready(1).on(there), ready(2).on(here)},
			endpoints: []int{2}, hairpin: []int{2},
		},
		"Local: the many of this node": {
			policy:    PolicyLocal,
			pods:      []pod{ready(1).on(here), ready(2).on(there), ready(3).on(here), ready(4).on(here)},
			endpoints: []int{1, 3, 4}, hairpin: []int{1, 3, 4},
		},
		"Local: drops if all are elsewhere": {
			policy: PolicyLocal, pods: []pod{ready(1).on(there)}, verdict: VerdictDrop,
		},
		"Local: drops if those elsewhere terminate": {
			policy: PolicyLocal, pods: []pod{draining(1).on(there), notReady(2).on(here)}, verdict: VerdictDrop,
		},
		"Local: rejects if there is none": {policy: PolicyLocal, verdict: VerdictReject},
		"Local: rejects if none can serve anywhere": {
			policy: PolicyLocal, pods: []pod{notReady(1).on(here), dying(2).on(there)}, verdict: VerdictReject,
		},
		"Local: terminating ones of this node although others are ready": {
			policy:    PolicyLocal,
			pods:      []pod{draining(1).on(here), ready(2).on(there)},
			endpoints: []int{1}, hairpin: []int{1},
		},
		"Local: whatever the hints": {
			policy:    PolicyLocal,
			pods:      []pod{ready(1).on(here).zones(zoneB), ready(2).on(there).zones(zoneA)},
			endpoints: []int{1}, hairpin: []int{1},
		},
		"Cluster: those hinted for this zone": {
			pods:      []pod{ready(1).on(here).zones(zoneA), ready(2).on(there).zones(zoneA), ready(3).on(there).zones(zoneB)},
			endpoints: []int{1, 2}, hairpin: []int{1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, p := range Protocols {
				var want []Frontend
				for _, f := range Families {
					pool := Pool{
						Key: webMatch(KindClusterIP, f, p), Hairpin: podIPs(f, test.hairpin...),
						Scheduler: SchedulerRandom, FlowEndpoints: flowsOf(f, p, test.pods...),
					}
					fe := Frontend{Match: pool.Key, Service: httpPort(p), Policy: test.policy, Verdict: test.verdict, Pool: &pool}
					*listOf(&fe) = podPorts(f, test.endpoints...)
					want = append(want, fe)
				}
				checkExactly(t, webFrontends(Options{}, p, test.policy, test.pods...), want)
			}
		})
	}
}

func TestTheHairpinListIsTheEndpointsOfThisNodeWithoutPorts(t *testing.T) {
	s := webService(TCP, IPv6)
	a, b := webSlice(IPv6, TCP, ready(7).on(here), ready(5).on(there)), webSlice(IPv6, TCP, ready(7).on(here), ready(6).on(here))
	b.Ports[0].Port = 9090
	got := Options{}.frontendsOf(&s, []EndpointSlice{a, b}, thisNode)
	if len(got) != 1 || len(got[0].Pool.Cluster) != 4 || !slices.Equal(got[0].Pool.Hairpin, podIPs(IPv6, 6, 7)) {
		t.Errorf("got %+v", got)
	}
}

func TestWhoIsMasqueradedDependsOnWhetherPodsAreKnown(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    [len(Families)]Masquerade
	}{
		"nobody if pods cannot be told from others": {
			want: [...]Masquerade{MasqueradeNever, MasqueradeNever},
		},
		"all but pods if they can": {
			Options{DetectsPods: [...]bool{true, true}},
			[...]Masquerade{MasqueradeOffPod, MasqueradeOffPod},
		},
		"each family by itself": {
			Options{DetectsPods: [...]bool{IPv4: false, IPv6: true}},
			[...]Masquerade{IPv4: MasqueradeNever, IPv6: MasqueradeOffPod},
		},
		"each family by itself, the other way round": {
			Options{DetectsPods: [...]bool{IPv4: true, IPv6: false}},
			[...]Masquerade{IPv4: MasqueradeOffPod, IPv6: MasqueradeNever},
		},
		"everybody, if so configured": {
			Options{MasqueradeAll: true},
			[...]Masquerade{MasqueradeAlways, MasqueradeAlways},
		},
		"everybody, if so configured, even pods that are known": {
			Options{MasqueradeAll: true, DetectsPods: [...]bool{true, true}},
			[...]Masquerade{MasqueradeAlways, MasqueradeAlways},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, policy := range []TrafficPolicy{PolicyCluster, PolicyLocal} {
				for _, got := range webFrontends(test.options, UDP, policy, ready(1).on(here)) {
					if got.Masquerade != test.want[got.Match.Family] {
						t.Errorf("%s: got %v, want %v", got.Match, got.Masquerade, test.want[got.Match.Family])
					}
				}
			}
		})
	}
}

func TestADualStackServiceIsDecidedInEachFamilyByItself(t *testing.T) {
	tests := map[string]struct {
		change func(*Service)
		from   []EndpointSlice
		want   []Verdict // of the IPv4 and the IPv6 frontend
	}{
		"with endpoints in both": {
			from: []EndpointSlice{webSlice(IPv4, TCP, ready(1)), webSlice(IPv6, TCP, ready(1))},
			want: []Verdict{VerdictBalance, VerdictBalance},
		},
		"with endpoints in one": {
			from: []EndpointSlice{webSlice(IPv6, TCP, ready(1))},
			want: []Verdict{VerdictReject, VerdictBalance},
		},
		"with local endpoints in one": {
			change: func(s *Service) { s.InternalPolicy = PolicyLocal },
			from:   []EndpointSlice{webSlice(IPv4, TCP, ready(1).on(there)), webSlice(IPv6, TCP, ready(1).on(here))},
			want:   []Verdict{VerdictDrop, VerdictBalance},
		},
		"with draining endpoints in one": {
			from: []EndpointSlice{webSlice(IPv4, TCP, draining(1)), webSlice(IPv6, TCP, notReady(1))},
			want: []Verdict{VerdictBalance, VerdictReject},
		},
		"whichever family comes first": {
			change: func(s *Service) { slices.Reverse(s.ClusterIPs) },
			from:   []EndpointSlice{webSlice(IPv6, TCP, ready(1))},
			want:   []Verdict{VerdictReject, VerdictBalance},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := webService(TCP, IPv4, IPv6)
			if test.change != nil {
				test.change(&s)
			}
			got := Options{}.frontendsOf(&s, test.from, thisNode)
			var verdicts []Verdict
			for i, fe := range got {
				if fe.Match.Family != Families[i] || FamilyOf(fe.Match.Addr) != Families[i] {
					t.Errorf("frontend %d is %s", i, fe.Match)
				}
				verdicts = append(verdicts, fe.Verdict)
			}
			if !slices.Equal(verdicts, test.want) {
				t.Errorf("got %v, want %v", verdicts, test.want)
			}
		})
	}
}

func TestAServiceHasNoFrontendInAFamilyWithoutClusterIP(t *testing.T) {
	for _, f := range Families {
		s := webService(SCTP, f)
		got := Options{}.frontendsOf(&s, []EndpointSlice{webSlice(IPv4, SCTP, ready(1)), webSlice(IPv6, SCTP, ready(1))}, thisNode)
		if len(got) != 1 || got[0].Match.Family != f {
			t.Errorf("%s: got %v", f, got)
		}
	}
}

func TestEveryPortOfAServiceIsAFrontend(t *testing.T) {
	s := webService(TCP, IPv4)
	s.Ports = []ServicePort{
		{Name: "dns", Protocol: UDP, Port: 53},
		{Name: "dns-tcp", Protocol: TCP, Port: 53},
		{Name: "sig", Protocol: SCTP, Port: 53},
		{Name: "none", Protocol: TCP, Port: 80},
	}
	slice := webSlice(IPv4, TCP, ready(1))
	slice.Ports = []EndpointPort{{"sig", SCTP, podPort}, {"dns-tcp", TCP, podPort}, {"dns", UDP, podPort}, {"none", UDP, podPort}}
	frontend := func(port string, p Protocol, number uint16) Frontend {
		m := Match{IPv4, clusterIP(IPv4, 10), p, number}
		return Frontend{Match: m, Service: ServicePortName{web, port, p}, Pool: &Pool{
			Key: m, Cluster: podPorts(IPv4, 1), Scheduler: SchedulerRandom, FlowEndpoints: flowsOf(IPv4, p, ready(1)),
		}}
	}
	want := []Frontend{frontend("dns", UDP, 53), frontend("dns-tcp", TCP, 53), frontend("sig", SCTP, 53), frontend("none", TCP, 80)}
	want[3].Verdict, want[3].Pool.Cluster = VerdictReject, nil
	checkExactly(t, Options{}.frontendsOf(&s, []EndpointSlice{slice}, thisNode), want)
}

func TestAServiceWithoutPortsOrAddressesHasNoFrontends(t *testing.T) {
	for _, s := range []Service{{Name: web}, webService(TCP), {Name: web, ClusterIPs: podIPs(IPv4, 1)}} {
		if got := (Options{}).frontendsOf(&s, []EndpointSlice{webSlice(IPv4, TCP, ready(1))}, thisNode); len(got) > 0 {
			t.Errorf("got %v", got)
		}
	}
}

// serving are the endpoints that the frontend's policy leaves.
func serving(f *Frontend) []netip.AddrPort { return *listOf(f) }

// listOf is the list of the pool that the frontend's policy asks for.
func listOf(f *Frontend) *[]netip.AddrPort {
	if f.Policy == PolicyLocal {
		return &f.Pool.Local
	}
	return &f.Pool.Cluster
}

// flowsOf are the flows of a pool of these pods.
func flowsOf(f Family, p Protocol, pods ...pod) []netip.AddrPort {
	var out []netip.AddrPort
	for _, pod := range pods {
		if p == UDP && (pod.Ready || pod.Serving) {
			out = append(out, podPorts(f, pod.k)...)
		}
	}
	return out
}

// checkFrontends fails if the frontends are not equal in what matters to them.
func checkFrontends(t *testing.T, got, want []Frontend) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b Frontend) bool { return a.equal(&b) }) {
		t.Errorf("got\n%s\nwant\n%s", frontendLines(got), frontendLines(want))
	}
}

// checkExactly fails if the frontends differ in anything.
func checkExactly(t *testing.T, got, want []Frontend) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b Frontend) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("got\n%s\nwant\n%s", frontendLines(got), frontendLines(want))
	}
}
