package model

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// BenchmarkSelect selects the endpoints of one port in one family from unsorted slices
// of 100, which is the size that the EndpointSlice controller uses.
func BenchmarkSelect(b *testing.B) {
	for _, endpoints := range []int{10, 250, 100_000} {
		b.Run(fmt.Sprintf("endpoints=%d", endpoints), func(b *testing.B) {
			from := slicesOf100(endpoints)
			b.ReportAllocs()
			for b.Loop() {
				selectEndpoints(httpPort(TCP), IPv4, from, thisNode)
			}
		})
	}
}

// BenchmarkSelectByZone is BenchmarkSelect with hints for one of three zones.
func BenchmarkSelectByZone(b *testing.B) {
	for _, endpoints := range []int{10, 250, 100_000} {
		b.Run(fmt.Sprintf("endpoints=%d", endpoints), func(b *testing.B) {
			from := slicesOf100(endpoints)
			for i := range from {
				for j := range from[i].Endpoints {
					from[i].Endpoints[j].ZoneHints = NameSet(fmt.Sprintf("zone-%c", "abc"[j%3]))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				selectEndpoints(httpPort(TCP), IPv4, from, thisNode)
			}
		})
	}
}

// BenchmarkOneSliceChanges replaces one endpoint of a Service with ten.
func BenchmarkOneSliceChanges(b *testing.B) {
	for _, services := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			m := benchMap(services)
			slice := [2]EndpointSlice{benchSlice(services / 2), benchSlice(services / 2)}
			slice[1].Endpoints[3].Addr = podIP(IPv4, 100_000)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m.SetSlice(slice[(i+1)%2])
				if c := m.Changes(); len(c.Set) != 1 || len(c.Gone) > 0 {
					b.Fatalf("changes: %v", c)
				}
			}
		})
	}
}

// BenchmarkOneSliceOfManyChanges replaces one endpoint in one slice of a Service with
// many slices, or adds one and removes it.
func BenchmarkOneSliceOfManyChanges(b *testing.B) {
	another := ready(0).on(there).Endpoint
	another.Addr = podIP(IPv4, 1<<17-1) // the last
	for what, change := range map[string]func([]Endpoint) []Endpoint{
		"replaced": func(e []Endpoint) []Endpoint { return append(e[:len(e)-1], another) },
		"more":     func(e []Endpoint) []Endpoint { return append(e, another) },
	} {
		for _, endpoints := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("one-%s/endpoints=%d", what, endpoints), func(b *testing.B) {
				m, from := bigMap(endpoints)
				slice := [2]EndpointSlice{from[len(from)/2], from[len(from)/2]}
				slice[1].Endpoints = change(slices.Clone(slice[1].Endpoints))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					m.SetSlice(slice[(i+1)%2])
					if c := m.Changes(); len(c.Set) != 1 || len(c.Gone) > 0 {
						b.Fatalf("changes: %v", c)
					}
				}
			})
		}
	}
}

// BenchmarkZoneChanges moves the node, with 10,000 Services, to another zone, for which
// there are no hints.
func BenchmarkZoneChanges(b *testing.B) {
	m := benchMap(10_000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.SetNode(Node{Name: here, Zone: []string{zoneA, zoneB}[(i+1)%2]})
		if c := m.Changes(); len(c.Set) > 0 {
			b.Fatalf("changes: %v", c)
		}
	}
}

// BenchmarkMaglevTable makes the table of one port.
func BenchmarkMaglevTable(b *testing.B) {
	for _, endpoints := range []int{10, 100} {
		b.Run(fmt.Sprintf("endpoints=%d", endpoints), func(b *testing.B) {
			from := endpointsOf(IPv4, endpoints, nil)
			b.ReportAllocs()
			for b.Loop() {
				MaglevTable(from, nil, smallTable)
			}
		})
	}
}

// BenchmarkLoad fills a map with 10,000 Services of ten endpoints.
func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		benchMap(10_000)
	}
}

// slicesOf100 returns slices of 100 ready endpoints, every tenth on this node.
func slicesOf100(endpoints int) []EndpointSlice {
	shuffled := rand.New(rand.NewPCG(1, 2)).Perm(endpoints)
	var out []EndpointSlice
	for len(shuffled) > 0 {
		s := webSlice(IPv4, TCP)
		s.Name.Name += fmt.Sprint("-", len(out))
		n := min(100, len(shuffled))
		for _, k := range shuffled[:n] {
			e := ready(k).on(there).Endpoint
			e.Addr = podIP(IPv4, k)
			if k%10 == 0 {
				e.Node = here
			}
			s.Endpoints = append(s.Endpoints, e)
		}
		out, shuffled = append(out, s), shuffled[n:]
	}
	return out
}

// bigMap returns a map with one Service, and its slices. Changes has been called.
func bigMap(endpoints int) (*ServiceMap, []EndpointSlice) {
	m := NewServiceMap(Options{DetectsPods: [len(Families)]bool{true, true}}, thisNode)
	m.SetService(webService(TCP, IPv4))
	from := slicesOf100(endpoints)
	for _, s := range from {
		m.SetSlice(s)
	}
	m.Changes()
	return m, from
}

// benchMap returns a map with Services of ten endpoints. Changes has been called.
func benchMap(services int) *ServiceMap {
	m := NewServiceMap(Options{DetectsPods: [len(Families)]bool{true, true}}, thisNode)
	for k := range services {
		s := webService(TCP)
		s.Name.Name += fmt.Sprint("-", k)
		s.ClusterIPs = []netip.Addr{clusterIP(IPv4, k%250)}
		s.Ports[0].Port = uint16(1 + k/250)
		m.SetService(s)
		m.SetSlice(benchSlice(k))
	}
	if c := m.Changes(); len(c.Set) != services {
		panic(fmt.Sprintf("%d frontends for %d Services", len(c.Set), services))
	}
	return m
}

// benchSlice returns the slice of Service k.
func benchSlice(k int) EndpointSlice {
	s := webSlice(IPv4, TCP)
	s.Name.Name += fmt.Sprint("-", k)
	s.Service.Name += fmt.Sprint("-", k)
	for i := range 10 {
		e := ready(i).on(there).Endpoint
		e.Addr = podIP(IPv4, 10*k+i)
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}
