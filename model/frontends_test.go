package model

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

// webFrontends returns the frontends of web with the given pods, in both families.
func webFrontends(o Options, p Protocol, policy TrafficPolicy, pods ...pod) []Frontend {
	s := webService(p, IPv4, IPv6)
	s.InternalPolicy = policy
	return o.frontendsOf(&s, []EndpointSlice{webSlice(IPv4, p, pods...), webSlice(IPv6, p, pods...)}, thisNode)
}

func TestHairpinListsLocalAddresses(t *testing.T) {
	s := webService(TCP, IPv6)
	a, b := webSlice(IPv6, TCP, ready(7).on(here), ready(5).on(there)), webSlice(IPv6, TCP, ready(7).on(here), ready(6).on(here))
	b.Ports[0].Port = 9090
	got := Options{}.frontendsOf(&s, []EndpointSlice{a, b}, thisNode)
	if len(got) != 1 || len(got[0].Pool.Cluster) != 4 || !slices.Equal(got[0].Pool.Hairpin, podIPs(IPv6, 6, 7)) {
		t.Errorf("got %+v", got)
	}
}

func TestClusterIPMasqueradeDependsOnPodDetection(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    [len(Families)]Masquerade
	}{
		"none if pods are not detected": {
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
		"all, if so configured": {
			Options{MasqueradeAll: true},
			[...]Masquerade{MasqueradeAlways, MasqueradeAlways},
		},
		"all, if so configured, even detected pods": {
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

func TestEveryPortIsAFrontend(t *testing.T) {
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
		m := Match{clusterIP(IPv4, 10), number, IPv4, p}
		return Frontend{Match: m, Service: ServicePortName{web, port, p}, Pool: &Pool{
			Key: m, Cluster: podPorts(IPv4, 1), Scheduler: SchedulerRandom, FlowEndpoints: flowsOf(IPv4, p, ready(1)),
		}}
	}
	want := []Frontend{frontend("dns", UDP, 53), frontend("dns-tcp", TCP, 53), frontend("sig", SCTP, 53), frontend("none", TCP, 80)}
	want[3].Verdict, want[3].Pool.Cluster = VerdictReject, nil
	checkExactly(t, Options{}.frontendsOf(&s, []EndpointSlice{slice}, thisNode), want)
}

func TestServiceWithoutPortsOrAddressesHasNoFrontends(t *testing.T) {
	for _, s := range []Service{{Name: web}, webService(TCP), {Name: web, ClusterIPs: podIPs(IPv4, 1)}} {
		if got := (Options{}).frontendsOf(&s, []EndpointSlice{webSlice(IPv4, TCP, ready(1))}, thisNode); len(got) > 0 {
			t.Errorf("got %v", got)
		}
	}
}

// serving returns the endpoints that the frontend's policy selects.
func serving(f *Frontend) []netip.AddrPort { return *listOf(f) }

// listOf returns the list of the pool that the frontend's policy selects.
func listOf(f *Frontend) *[]netip.AddrPort {
	if f.Policy == PolicyLocal {
		return &f.Pool.Local
	}
	return &f.Pool.Cluster
}

// flowsOf returns the flow endpoints of a pool with these pods.
func flowsOf(f Family, p Protocol, pods ...pod) []netip.AddrPort {
	var out []netip.AddrPort
	for _, pod := range pods {
		if p == UDP && (pod.Ready || pod.Serving) {
			out = append(out, podPorts(f, pod.k)...)
		}
	}
	return out
}

// checkFrontends fails if the frontends are not programmed alike.
func checkFrontends(t *testing.T, got, want []Frontend) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b Frontend) bool { return a.equal(&b) }) {
		t.Errorf("got\n%s\nwant\n%s", frontendLines(got), frontendLines(want))
	}
}

// checkExactly fails if the frontends differ.
func checkExactly(t *testing.T, got, want []Frontend) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b Frontend) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("got\n%s\nwant\n%s", frontendLines(got), frontendLines(want))
	}
}
