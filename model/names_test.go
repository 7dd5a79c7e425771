package model

import (
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
	tests := []struct {
		of   fmt.Stringer
		want string
	}{
		{IPv4, "IPv4"},
		{IPv6, "IPv6"},
		{Family(2), "Family(2)"},
		{TCP, "tcp"},
		{UDP, "udp"},
		{SCTP, "sctp"},
		{Protocol(1), "1"},
		{KindClusterIP, "ClusterIP"},
		{KindNodePort, "NodePort"},
		{KindExternalIP, "ExternalIP"},
		{KindLoadBalancerIP, "LoadBalancerIP"},
		{Kind(4), "Kind(4)"},
		{SchedulerDefault, "default"},
		{SchedulerRandom, "random"},
		{SchedulerRoundRobin, "rr"},
		{SchedulerSourceHash, "sh"},
		{SchedulerMaglev, "mh"},
		{SchedulerLeastConnections, "lc"},
		{Scheduler(6), "Scheduler(6)"},
		{web, "shop/web"},
		{EndpointSliceName{"shop", "web-abc12"}, "shop/web-abc12"},
		{ServicePortName{web, "http", TCP}, "shop/web:http"},
		{ServicePortName{web, "", UDP}, "shop/web"},
		{Match{clusterIP(IPv4, 10), 53, IPv4, UDP}, "192.0.2.10:53/udp"},
		{Match{clusterIP(IPv6, 10), 53, IPv6, SCTP}, "[2001:db8:1::a]:53/sctp"},
		{Match{netip.Addr{}, 30053, IPv4, TCP}, "*:30053/tcp"},
	}
	for _, test := range tests {
		if got := test.of.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestNameSetHasItsNames(t *testing.T) {
	tests := map[string]struct {
		set    NameSet
		want   NameSet
		has    []string
		misses []string
	}{
		"none":               {set: NameSetOf(), misses: []string{"", "a", ","}},
		"an empty one":       {set: NameSetOf(""), misses: []string{"", "a"}},
		"several empty ones": {set: NameSetOf("", ""), misses: []string{""}},
		"one":                {set: NameSetOf("b"), want: "b", has: []string{"b"}, misses: []string{"", "a", "bb", "b,"}},
		"several":            {set: NameSetOf("b", "c", "a"), want: "a,b,c", has: []string{"a", "b", "c"}, misses: []string{"", "a,b", "ab", "b,c"}},
		"the same again":     {set: NameSetOf("b", "", "a", "b"), want: "a,b", has: []string{"a", "b"}, misses: []string{""}},
		"parts of others":    {set: NameSetOf("zone-aa", "zone"), want: "zone,zone-aa", has: []string{"zone"}, misses: []string{"zone-a", "one"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.set != test.want {
				t.Errorf("got %q, want %q", test.set, test.want)
			}
			for _, name := range test.has {
				if !test.set.Has(name) {
					t.Errorf("%q misses %q", test.set, name)
				}
			}
			for _, name := range test.misses {
				if test.set.Has(name) {
					t.Errorf("%q has %q", test.set, name)
				}
			}
		})
	}
}

func TestNameSetOfDoesNotChangeItsInput(t *testing.T) {
	names := []string{"b", "", "a", "b"}
	NameSetOf(names...)
	if !slices.Equal(names, []string{"b", "", "a", "b"}) {
		t.Errorf("got %q", names)
	}
}

func TestMatchesAreOrderedByFamilyAddressProtocolPort(t *testing.T) {
	sorted := []Match{
		{netip.Addr{}, 30080, IPv4, TCP},
		{clusterIP(IPv4, 9), 80, IPv4, TCP},
		{clusterIP(IPv4, 10), 53, IPv4, TCP},
		{clusterIP(IPv4, 10), 443, IPv4, TCP},
		{clusterIP(IPv4, 10), 53, IPv4, UDP},
		{clusterIP(IPv4, 10), 53, IPv4, SCTP},
		{netip.Addr{}, 30080, IPv6, TCP},
		{clusterIP(IPv6, 1), 80, IPv6, TCP},
	}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := a.Compare(b); got != sign(i-j) {
				t.Errorf("%s to %s: got %d", a, b, got)
			}
		}
	}
}

func TestServicesAreOrderedByCreationThenUIDThenName(t *testing.T) {
	sorted := []Service{
		{Name: ServiceName{"z", "z"}, Created: 0},
		{Name: ServiceName{"b", "b"}, Created: 1},
		{Name: ServiceName{"a", "z"}, Created: 2},
		{Name: ServiceName{"a-b", "a"}, Created: 2},
		{Name: ServiceName{"b", "a"}, Created: 2},
		{Name: ServiceName{"b", "b"}, Created: 2},
		{Name: ServiceName{"b", "b"}, Created: 2, UID: "3f"},
		{Name: ServiceName{"a", "a"}, Created: 2, UID: "4a"},
		{Name: ServiceName{"a", "a"}, Created: 1_700_000_000_000_000_000},
	}
	for i := range sorted {
		for j := range sorted {
			if got := sorted[i].compareAge(&sorted[j]); got != sign(i-j) {
				t.Errorf("%s to %s: got %d", sorted[i].Name, sorted[j].Name, got)
			}
		}
	}
}

func TestMappedAddressIsIPv6(t *testing.T) {
	if got := FamilyOf(netip.MustParseAddr("::ffff:192.0.2.1")); got != IPv6 {
		t.Errorf("got %s", got)
	}
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}
