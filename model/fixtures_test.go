package model

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

// The tests' addresses: ClusterIPs are from 192.0.2.0/24 and 2001:db8:1::/64,
// pods from 198.18.0.0/15 and 2001:db8:2::/64, load balancer and external IPs
// from 203.0.113.0/24 and 2001:db8:3::/64, nodes and clients from
// 198.51.100.0/24 and 2001:db8:4::/64, by number. These ranges are for
// documentation and benchmarks (RFC 5737, RFC 2544, RFC 3849).

// clusterIP returns ClusterIP k, externalIP the load balancer or external IP k, nodeIP the address
// of node or client k.
func clusterIP(f Family, k int) netip.Addr  { return address(f, [3]byte{192, 0, 2}, 1, k) }
func externalIP(f Family, k int) netip.Addr { return address(f, [3]byte{203, 0, 113}, 3, k) }
func nodeIP(f Family, k int) netip.Addr     { return address(f, [3]byte{198, 51, 100}, 4, k) }

// address returns address k of a range of IPv4, or of 2001:db8:net::/64.
func address(f Family, ip [3]byte, net, k int) netip.Addr {
	if f == IPv4 {
		return netip.AddrFrom4([4]byte{ip[0], ip[1], ip[2], byte(k)})
	}
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::%x", net, k))
}

// podIP returns the address of pod k.
func podIP(f Family, k int) netip.Addr {
	if f == IPv4 {
		return netip.AddrFrom4([4]byte{198, 18 + byte(k>>16), byte(k >> 8), byte(k)})
	}
	addr := netip.MustParseAddr("2001:db8:2::").As16()
	binary.BigEndian.PutUint64(addr[8:], uint64(k))
	return netip.AddrFrom16(addr)
}

// podIPs returns the addresses of pods.
func podIPs(f Family, ks ...int) []netip.Addr {
	var out []netip.Addr
	for _, k := range ks {
		out = append(out, podIP(f, k))
	}
	return out
}

// podPorts returns the addresses of pods with podPort.
func podPorts(f Family, ks ...int) []netip.AddrPort {
	var out []netip.AddrPort
	for _, k := range ks {
		out = append(out, netip.AddrPortFrom(podIP(f, k), podPort))
	}
	return out
}

// Names and numbers in all tests.
const (
	podPort = 8080
	here    = "node-1"
	there   = "node-2"
	zoneA   = "zone-a"
	zoneB   = "zone-b"

	webNodePort = 30080
)

// thisNode is the node of most tests.
var thisNode = Node{Name: here, Zone: zoneA, Addrs: [...]netip.Addr{nodeIP(IPv4, 1), nodeIP(IPv6, 1)}}

// pod is an endpoint in any family, by its number.
type pod struct {
	k int
	Endpoint
}

// The four usual conditions of a pod.
func ready(k int) pod              { return pod{k, Endpoint{Ready: true, Serving: true}} }
func notReady(k int) pod           { return pod{k, Endpoint{}} }
func servingTerminating(k int) pod { return pod{k, Endpoint{Serving: true, Terminating: true}} }
func terminating(k int) pod        { return pod{k, Endpoint{Terminating: true}} }

// on returns the pod on a node.
func (p pod) on(node string) pod {
	p.Node = node
	return p
}

// zones returns the pod with hints for zones.
func (p pod) zones(names ...string) pod {
	p.ZoneHints = NameSetOf(names...)
	return p
}

// nodes returns the pod with hints for nodes.
func (p pod) nodes(names ...string) pod {
	p.NodeHints = NameSetOf(names...)
	return p
}

// web is the name of the Service in tests that need only one.
var web = ServiceName{"shop", "web"}

// httpPort is the name of web's port.
func httpPort(p Protocol) ServicePortName {
	return ServicePortName{ServiceName: web, Port: "http", Protocol: p}
}

// webSlice returns a slice of Service web with httpPort.
func webSlice(f Family, p Protocol, pods ...pod) EndpointSlice {
	s := EndpointSlice{
		Name:    EndpointSliceName{web.Namespace, "web-" + f.String()},
		Service: web,
		Family:  f,
		Ports:   []EndpointPort{{Name: "http", Protocol: p, Port: podPort}},
	}
	for _, pod := range pods {
		pod.Addr = podIP(f, pod.k)
		s.Endpoints = append(s.Endpoints, pod.Endpoint)
	}
	return s
}

// webService returns Service web with ClusterIP 10 in the given families and httpPort
// at port 80.
func webService(p Protocol, families ...Family) Service {
	s := Service{Name: web, Ports: []ServicePort{{Name: "http", Protocol: p, Port: 80}}}
	for _, f := range families {
		s.ClusterIPs = append(s.ClusterIPs, clusterIP(f, 10))
	}
	return s
}

// webAllKinds returns webService with addresses of every kind: webNodePort, and in each
// family load balancer IP 1 and external IP 2.
func webAllKinds(p Protocol, families ...Family) Service {
	s := webService(p, families...)
	s.Ports[0].NodePort = webNodePort
	for _, f := range families {
		s.LoadBalancerIPs = append(s.LoadBalancerIPs, externalIP(f, 1))
		s.ExternalIPs = append(s.ExternalIPs, externalIP(f, 2))
	}
	return s
}

// kinds lists every kind, in the order of webAllKinds's matches.
var kinds = [...]Kind{KindNodePort, KindClusterIP, KindLoadBalancerIP, KindExternalIP}

// webMatch returns the match of webAllKinds for a kind.
func webMatch(k Kind, f Family, p Protocol) Match {
	switch k {
	case KindNodePort:
		return Match{Family: f, Protocol: p, Port: webNodePort}
	case KindLoadBalancerIP:
		return Match{externalIP(f, 1), 80, f, p}
	case KindExternalIP:
		return Match{externalIP(f, 2), 80, f, p}
	}
	return Match{clusterIP(f, 10), 80, f, p}
}

// changed returns a changed copy of the Service.
func changed(s Service, changes ...func(*Service)) Service {
	s.Ports, s.ClusterIPs = slices.Clone(s.Ports), slices.Clone(s.ClusterIPs)
	s.LoadBalancerIPs, s.ExternalIPs = slices.Clone(s.LoadBalancerIPs), slices.Clone(s.ExternalIPs)
	for _, change := range changes {
		change(&s)
	}
	return s
}

// selectEndpoints returns the endpoint lists of a port without a cache.
func selectEndpoints(port ServicePortName, f Family, from []EndpointSlice, n Node, held bool) endpointLists {
	v := endpointView{serviceEntry: &serviceEntry{slices: from}, node: &n}
	return v.lists(portKey{port.Port, port.Protocol, f}, needs{flows: port.Protocol == UDP, held: held}, nil)
}

// fewerIfShort returns the number of seeds for a test of random cases: n, or with
// -short, as for mutation testing, a third.
func fewerIfShort(n uint64) uint64 {
	if testing.Short() {
		return n / 3
	}
	return n
}

// every runs a test in each family for each protocol.
func every(t *testing.T, test func(*testing.T, Family, Protocol)) {
	t.Helper()
	for _, f := range Families {
		for _, p := range Protocols {
			t.Run(f.String()+" "+p.String(), func(t *testing.T) { test(t, f, p) })
		}
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

// checkExactly fails if the frontends differ.
func checkExactly(t *testing.T, got, want []Frontend) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b Frontend) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("got\n%s\nwant\n%s", frontendLines(got), frontendLines(want))
	}
}
