package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// lines formats values, one per line.
func lines[T any](values []T) string {
	var s strings.Builder
	for _, v := range values {
		fmt.Fprintf(&s, "\t%+v\n", v)
	}
	return s.String()
}

// frontendLines formats frontends with their pools.
func frontendLines(frontends []Frontend) string {
	var s strings.Builder
	for _, f := range frontends {
		fmt.Fprintf(&s, "\t%s %s of %s: policy %d, verdict %d, masquerade %d, restricted %v to %v\n\t\t%+v\n",
			f.Kind, f.Match, f.Service, f.Policy, f.Verdict, f.Masquerade, f.Restricted, f.Sources, *f.Pool)
	}
	return s.String()
}

func TestStringNames(t *testing.T) {
	for want, all := range map[string][]fmt.Stringer{
		"IPv4 IPv6 Family(2)": {IPv4, IPv6, Family(2)},
		"tcp udp sctp 1":      {TCP, UDP, SCTP, Protocol(1)},
		"ClusterIP NodePort ExternalIP LoadBalancerIP Kind(4)": {
			KindClusterIP, KindNodePort, KindExternalIP, KindLoadBalancerIP, Kind(4),
		},
		"default random rr sh mh lc": {
			SchedulerDefault, SchedulerRandom, SchedulerRoundRobin, SchedulerSourceHash, SchedulerMaglev, SchedulerLeastConnections,
		},
		" NoPort Duplicate NotReady Drained StandBy NotLocal Terminating OtherNodes OtherZones": {
			ReasonNone, ReasonNoPort, ReasonDuplicate, ReasonNotReady, ReasonDrained, ReasonStandBy, ReasonNotLocal, ReasonServingTerminating,
			ReasonOtherNodes, ReasonOtherZones,
		},
		"shop/web-abc12":         {EndpointSliceName{"shop", "web-abc12"}},
		"shop/web:http shop/web": {ServicePortName{web, "http", TCP}, ServicePortName{web, "", UDP}},
		"192.0.2.10:53/udp [2001:db8:1::a]:53/sctp *:30053/tcp": {
			Match{clusterIP(IPv4, 10), 53, IPv4, UDP}, Match{clusterIP(IPv6, 10), 53, IPv6, SCTP}, Match{netip.Addr{}, 30053, IPv4, TCP},
		},
	} {
		var got []string
		for _, of := range all {
			got = append(got, of.String())
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNameSetHasItsNames(t *testing.T) {
	candidates := []string{"", ",", "a", "b", "c", "ab", "bb", "a,b", "b,", "b,c", "one", "zone", "zone-a", "zone-aa"}
	for _, test := range []struct {
		names []string
		want  NameSet
		has   []string
	}{
		{nil, "", nil},
		{[]string{""}, "", nil},
		{[]string{"", ""}, "", nil},
		{[]string{"b"}, "b", []string{"b"}},
		{[]string{"b", "c", "a"}, "a,b,c", []string{"a", "b", "c"}},
		{[]string{"b", "", "a", "b"}, "a,b", []string{"a", "b"}},
		{[]string{"zone-aa", "zone"}, "zone,zone-aa", []string{"zone", "zone-aa"}},
	} {
		names := slices.Clone(test.names)
		set := NameSetOf(names...)
		has := slices.DeleteFunc(slices.Clone(candidates), func(name string) bool { return !set.Has(name) })
		if set != test.want || !slices.Equal(has, test.has) || !slices.Equal(names, test.names) {
			t.Errorf("the set of %q is %q with %q, of names %q", test.names, set, has, names)
		}
	}
}

func checkOrder[T any](t *testing.T, sorted []T, compare func(a, b T) int) {
	t.Helper()
	for i, a := range sorted {
		for j, b := range sorted {
			if got := compare(a, b); got != cmp.Compare(i, j) {
				t.Errorf("%v to %v: got %d", a, b, got)
			}
		}
	}
}

func TestMatchesAreOrderedByFamilyAddressProtocolPort(t *testing.T) {
	checkOrder(t, []Match{
		{netip.Addr{}, 30080, IPv4, TCP},
		{clusterIP(IPv4, 9), 80, IPv4, TCP},
		{clusterIP(IPv4, 10), 53, IPv4, TCP},
		{clusterIP(IPv4, 10), 443, IPv4, TCP},
		{clusterIP(IPv4, 10), 53, IPv4, UDP},
		{clusterIP(IPv4, 10), 53, IPv4, SCTP},
		{netip.Addr{}, 30080, IPv6, TCP},
		{clusterIP(IPv6, 1), 80, IPv6, TCP},
	}, Match.Compare)
}

func TestServicesAreOrderedByCreationThenUIDThenName(t *testing.T) {
	checkOrder(t, []*Service{
		{Name: ServiceName{"z", "z"}, Created: 0},
		{Name: ServiceName{"b", "b"}, Created: 1},
		{Name: ServiceName{"a", "z"}, Created: 2},
		{Name: ServiceName{"a-b", "a"}, Created: 2},
		{Name: ServiceName{"b", "a"}, Created: 2},
		{Name: ServiceName{"b", "b"}, Created: 2},
		{Name: ServiceName{"b", "b"}, Created: 2, UID: "3f"},
		{Name: ServiceName{"a", "a"}, Created: 2, UID: "4a"},
		{Name: ServiceName{"a", "a"}, Created: 1_700_000_000_000_000_000},
	}, (*Service).compareAge)
}

func TestMappedAddressIsIPv6(t *testing.T) {
	if got := FamilyOf(netip.MustParseAddr("::ffff:192.0.2.1")); got != IPv6 {
		t.Errorf("got %s", got)
	}
}

func TestLastAddress(t *testing.T) {
	for prefix, want := range map[string]string{
		"10.96.0.0/16":       "10.96.255.255",
		"10.96.0.0/12":       "10.111.255.255",
		"192.0.2.7/32":       "192.0.2.7",
		"192.0.2.6/31":       "192.0.2.7",
		"0.0.0.0/0":          "255.255.255.255",
		"255.255.255.255/32": "255.255.255.255",
		"fd00:10:96::/112":   "fd00:10:96::ffff",
		"::/0":               "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"2001:db8::/65":      "2001:db8::7fff:ffff:ffff:ffff",
	} {
		if got := LastAddr(netip.MustParsePrefix(prefix)); got != netip.MustParseAddr(want) {
			t.Errorf("the last address of %s is %v, want %s", prefix, got, want)
		}
	}
}
