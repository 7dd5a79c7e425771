package model

import (
	"net/netip"
	"slices"
	"testing"
)

func TestDuplicateThatDoesNotTerminateIsUsed(t *testing.T) {
	tests := map[string]struct {
		duplicates [2]pod
		want       selection
	}{
		"over a terminating one, when it is ready": {
			duplicates: [2]pod{ready(1).on(here), servingTerminating(1).on(there)},
			want:       selection{cluster: []int{1}, local: []int{1}, hairpin: []int{1}, anyUsable: true},
		},
		"over a terminating one, even when it is not ready yet": {
			duplicates: [2]pod{notReady(1), servingTerminating(1)},
		},
		"over a ready one that terminates": {
			duplicates: [2]pod{notReady(1), {1, Endpoint{Ready: true, Serving: true, Terminating: true}}},
		},
		"ready over not ready": {
			duplicates: [2]pod{ready(1), notReady(1)},
			want:       selection{cluster: []int{1}, anyUsable: true},
		},
		"serving over not serving, when both terminate": {
			duplicates: [2]pod{servingTerminating(1), terminating(1)},
			want:       selection{cluster: []int{1}, anyUsable: true},
		},
		"once, when they are the same": {
			duplicates: [2]pod{ready(1), ready(1)},
			want:       selection{cluster: []int{1}, anyUsable: true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, f := range Families {
				for _, p := range Protocols {
					a, b := webSlice(f, p, test.duplicates[0]), webSlice(f, p, test.duplicates[1])
					both := webSlice(f, p, test.duplicates[1], test.duplicates[0])
					for _, from := range [][]EndpointSlice{{a, b}, {b, a}, {both}, {b, both, a}} {
						checkSelection(t, f, selectEndpoints(httpPort(p), f, from, thisNode), test.want)
					}
				}
			}
		})
	}
}

func TestDuplicateChoiceIgnoresNodeAndOrder(t *testing.T) {
	for _, f := range Families {
		a := webSlice(f, TCP, ready(1).on(here).zones(zoneA), ready(2).on(there).nodes(there))
		b := webSlice(f, TCP, ready(1).on(there).zones(zoneB), ready(2).on(here).nodes(here))
		locals := 0
		for _, n := range []Node{{Name: here, Zone: zoneA}, {Name: there, Zone: zoneB}} {
			got := selectEndpoints(httpPort(TCP), f, []EndpointSlice{a, b}, n)
			if again := selectEndpoints(httpPort(TCP), f, []EndpointSlice{b, a}, n); !equalSelections(got, again) {
				t.Errorf("%s: %v in one order, %v in the other", f, got, again)
			}
			locals += len(got.local)
		}
		if locals != 2 {
			t.Errorf("%s: two endpoints are local on %d nodes in total", f, locals)
		}
	}
}

func TestAddressWithSeveralPortsIsSeveralEndpoints(t *testing.T) {
	for _, f := range Families {
		a, b := webSlice(f, TCP, ready(1).on(here)), webSlice(f, TCP, servingTerminating(1).on(here), ready(2))
		b.Ports[0].Port = 9090
		got := selectEndpoints(httpPort(TCP), f, []EndpointSlice{a, b}, thisNode)
		want := []netip.AddrPort{
			netip.AddrPortFrom(podIP(f, 1), 8080), netip.AddrPortFrom(podIP(f, 2), 9090),
		}
		if !slices.Equal(got.cluster, want) || !slices.Equal(got.hairpin, podIPs(f, 1)) {
			t.Errorf("got %v, on this node %v", got.cluster, got.hairpin)
		}
	}
}

func TestHintsOfAllSlicesCount(t *testing.T) {
	from := []EndpointSlice{webSlice(IPv4, TCP, ready(1).zones(zoneA), ready(2).zones(zoneB)), webSlice(IPv4, TCP, ready(3))}
	checkSelection(t, IPv4, selectEndpoints(httpPort(TCP), IPv4, from, thisNode),
		selection{cluster: []int{1, 2, 3}, anyUsable: true})
}

func TestSlicePortMatchesNameAndProtocol(t *testing.T) {
	ports := []EndpointPort{
		{"dns", UDP, 1001},
		{"dns-tcp", TCP, 1002},
		{"", SCTP, 1003},
		{"", TCP, 1004},
		{"metrics", TCP, 1005},
	}
	tests := map[string]struct {
		name     string
		protocol Protocol
		want     uint16 // 0 for none
	}{
		"of several ports":                 {"metrics", TCP, 1005},
		"of another protocol":              {"dns", UDP, 1001},
		"not if only the name matches":     {"dns", TCP, 0},
		"not if only the protocol matches": {"web", TCP, 0},
		"not if the name is a part":        {"dns-", TCP, 0},
		"not if the case differs":          {"Metrics", TCP, 0},
		"without a name":                   {"", TCP, 1004},
		"without a name, by protocol":      {"", SCTP, 1003},
		"not without a name otherwise":     {"", UDP, 0},
		"not of an unknown protocol":       {"metrics", 0, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, f := range Families {
				s := webSlice(f, TCP, ready(1))
				s.Ports = ports
				port := ServicePortName{web, test.name, test.protocol}
				var want []netip.AddrPort
				if test.want > 0 {
					want = append(want, netip.AddrPortFrom(podIP(f, 1), test.want))
				}
				if got := selectEndpoints(port, f, []EndpointSlice{s}, thisNode); !slices.Equal(got.cluster, want) {
					t.Errorf("%s: got %v, want %v", f, got.cluster, want)
				}
			}
		})
	}
}

func TestSliceServesItsFamilyOnly(t *testing.T) {
	from := []EndpointSlice{webSlice(IPv4, TCP, ready(1)), webSlice(IPv6, TCP, ready(2)), webSlice(Family(9), TCP, ready(3))}
	checkSelection(t, IPv4, selectEndpoints(httpPort(TCP), IPv4, from, thisNode), selection{cluster: []int{1}, anyUsable: true})
	checkSelection(t, IPv6, selectEndpoints(httpPort(TCP), IPv6, from, thisNode), selection{cluster: []int{2}, anyUsable: true})
}

func TestEndpointsAreSortedNumerically(t *testing.T) {
	for _, f := range Families {
		s := webSlice(f, TCP, ready(100), ready(9), ready(20), ready(1000))
		s.Ports = append(s.Ports, EndpointPort{"http", TCP, 900})
		got := selectEndpoints(httpPort(TCP), f, []EndpointSlice{s}, thisNode).cluster
		if !slices.IsSortedFunc(got, netip.AddrPort.Compare) || len(got) != 8 || got[0].Port() != 900 {
			t.Errorf("%s: got %v", f, got)
		}
	}
}

func TestSelectionDoesNotChangeItsInput(t *testing.T) {
	from := []EndpointSlice{webSlice(IPv4, TCP, ready(3).on(here), ready(1)), webSlice(IPv4, TCP, servingTerminating(1), ready(2))}
	before := []EndpointSlice{from[0], from[1]}
	for i := range before {
		before[i].Endpoints = slices.Clone(from[i].Endpoints)
	}
	selectEndpoints(httpPort(TCP), IPv4, from, thisNode)
	for i := range before {
		if !slices.Equal(from[i].Endpoints, before[i].Endpoints) {
			t.Errorf("slice %d was %v and is %v", i, before[i].Endpoints, from[i].Endpoints)
		}
	}
}

func equalSelections(a, b endpointLists) bool {
	return slices.Equal(a.cluster, b.cluster) && slices.Equal(a.local, b.local) &&
		slices.Equal(a.hairpin, b.hairpin) && slices.Equal(a.flows, b.flows) && a.anyUsable == b.anyUsable
}
