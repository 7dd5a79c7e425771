package model

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"testing"
)

// checkCaches checks that Services with many slices have caches, and that these are
// equal to new ones.
func checkCaches(t *testing.T, m *ServiceMap) {
	t.Helper()
	for _, e := range m.services {
		many := e.service != nil && len(e.slices) >= m.minCachedSlices && !e.slices.prioritized()
		if many != (e.cache != nil) {
			t.Errorf("%s has %d slices and the cache %+v", e.name, len(e.slices), e.cache)
		}
		if e.cache == nil {
			continue
		}
		g, fresh := e.cache, newEndpointCache(e.slices, m.node)
		if len(g.changed) > 0 || len(g.positions) != len(e.slices) || len(g.positions)+len(g.free) != len(g.slices) {
			t.Errorf("%s has %d slices: of %d positions, %d are used, %d free, %d to be updated",
				e.name, len(e.slices), len(g.slices), len(g.positions), len(g.free), len(g.changed))
		}
		if !maps.Equal(g.localAddrs, fresh.localAddrs) {
			t.Errorf("%s: ready on the node are %v, want %v", e.name, g.localAddrs, fresh.localAddrs)
		}
		for o, r := range g.indexes {
			if !slices.ContainsFunc(e.service.Ports, func(p ServicePort) bool { return p.Name == o.port && p.Protocol == o.protocol }) {
				t.Errorf("%s: an index of port %+v, which it does not have", e.name, o)
			}
			got, want := r.lists, fresh.lists(o, r.criteria.needs)
			if !reflect.DeepEqual(got, want) || r.counts != fresh.indexes[o].counts {
				t.Errorf("%s %+v: got\n\t%+v\nwant\n\t%+v", e.name, o, got, want)
			}
			if all, want := resolveCandidates(g.slices, r), resolveCandidates(fresh.slices, fresh.indexes[o]); !slices.Equal(all, want) {
				t.Errorf("%s %+v: got\n%s\nwant\n%s", e.name, o, lines(all), lines(want))
			}
		}
	}
}

// resolvedCandidate is a candidate with its endpoint instead of the position.
type resolvedCandidate struct {
	Endpoint
	number uint16
	traits traits
}

// resolveCandidates returns the candidates of an index.
func resolveCandidates(p endpointSlices, r *endpointIndex) []resolvedCandidate {
	var out []resolvedCandidate
	for _, c := range r.candidates {
		out = append(out, resolvedCandidate{*p.endpoint(c), c.number, c.traits})
	}
	return out
}

// largeMap returns a map whose Service web has n slices of pods on another node, and these
// slices. Changes has been called.
func largeMap(f Family, p Protocol, n, pods int) (*ServiceMap, []EndpointSlice) {
	m := NewServiceMap(Options{}, thisNode)
	m.SetService(webService(p, f))
	var from []EndpointSlice
	for i := range n {
		var all []pod
		for k := range pods {
			all = append(all, ready(pods*i+k).on(there))
		}
		s := webSlice(f, p, all...)
		s.Name.Name += fmt.Sprint("-", i)
		m.SetSlice(s)
		from = append(from, s)
	}
	m.Changes()
	return m, from
}

func TestUnchangedListsAreShared(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m, from := largeMap(f, p, minCachedSlices, 10)
		m.SetOptions(Options{TCPFlowEndpoints: true})
		m.Changes()
		pool := func() *Pool { return m.services[web].frontends[0].Pool }
		before := pool()
		if before.FlowEndpoints != nil && &before.FlowEndpoints[0] != &before.Cluster[0] {
			t.Error("flow endpoints have a list of their own")
		}
		s := from[2]
		s.Endpoints = append(slices.Clone(s.Endpoints), notReady(1000).Endpoint)
		s.Endpoints[10].Addr = podIP(f, 1000)
		m.SetSlice(s)
		checkNothing(t, m.Changes())
		if after := pool(); &after.Cluster[0] != &before.Cluster[0] {
			t.Error("an endpoint that is not ready changed the list")
		}
	})
}

// TestShrunkServiceFreesMemory deletes most slices, and adds them again with other names.
func TestShrunkServiceFreesMemory(t *testing.T) {
	m, from := largeMap(IPv4, TCP, 40, 100)
	for _, s := range from[minCachedSlices:] {
		m.DeleteSlice(s.Name)
		m.Changes()
	}
	cache := m.services[web].cache
	for _, r := range cache.indexes {
		if len(r.candidates) != 100*minCachedSlices || cap(r.candidates) > 5*len(r.candidates) {
			t.Errorf("capacity %d for %d candidates", cap(r.candidates), len(r.candidates))
		}
	}
	for _, s := range from[minCachedSlices:] {
		s.Name.Name += "-again"
		m.SetSlice(s)
	}
	m.Changes()
	if len(cache.slices) != len(from) {
		t.Errorf("%d positions for %d slices", len(cache.slices), len(from))
	}
}

// TestEndpointChangeCostsOneCopyOfList counts bytes. To sort all endpoints again would
// take several times as many.
func TestEndpointChangeCostsOneCopyOfList(t *testing.T) {
	const endpoints = 20_000
	m, from := largeMap(IPv4, TCP, endpoints/100, 100)
	list := endpoints * uint64(reflect.TypeFor[netip.AddrPort]().Size())
	s := from[7]
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 10
	for i := range times {
		s.Endpoints = slices.Clone(s.Endpoints)
		s.Endpoints[i].Ready = !s.Endpoints[i].Ready
		m.SetSlice(s)
		if got := m.Changes(); len(got.Set) != 1 {
			t.Fatalf("got %+v", got)
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / times; got > list*5/4 {
		t.Errorf("%d bytes for each change, the list has %d", got, list)
	}
}

func TestRebuildPaysForManyDifferencesOrUnusedMemory(t *testing.T) {
	for _, test := range []struct {
		differences, candidates, capacity int
		want                              bool
	}{
		{100, 0, 0, false},
		{101, 0, 0, true},
		{101, 807, 807, true},
		{101, 808, 808, false},
		{1000, 8000, 8000, false},
		{1001, 8000, 8000, true},
		{1, 100, 403, false},
		{1, 100, 404, true},
	} {
		if got := rebuildPays(test.differences, test.candidates, test.capacity); got != test.want {
			t.Errorf("%+v: got %t", test, got)
		}
	}
}

func TestShrinkCopiesBelowAnEighthOfALargePeak(t *testing.T) {
	for _, test := range []struct{ size, peak, want int }{
		{0, 4095, 4095},
		{0, 4096, 0},
		{512, 4096, 512},
		{513, 4096, 4096},
		{9, 3, 9},
	} {
		m := make(map[int]int)
		for i := range test.size {
			m[i] = i
		}
		peak := test.peak
		if got := Shrink(m, &peak); !maps.Equal(got, m) || peak != test.want {
			t.Errorf("%+v: got %d elements, peak %d", test, len(got), peak)
		}
	}
}
