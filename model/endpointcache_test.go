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

// checkGathered checks that what the map keeps of slices, of whom it should keep
// any, is what it would gather anew.
func checkGathered(t *testing.T, m *ServiceMap) {
	t.Helper()
	for _, e := range m.services {
		if many := e.service != nil && len(e.slices) >= m.minCachedSlices; many != (e.cache != nil) {
			t.Errorf("%s has %d slices, gathered are %+v", e.name, len(e.slices), e.cache)
		}
		if e.cache == nil {
			continue
		}
		g, anew := e.cache, newEndpointCache(e.slices, m.node)
		if len(g.changed) > 0 || len(g.positions) != len(e.slices) || len(g.positions)+len(g.free) != len(g.slices) {
			t.Errorf("%s has %d slices: of %d places, %d are taken, %d free, %d to be updated",
				e.name, len(e.slices), len(g.slices), len(g.positions), len(g.free), len(g.changed))
		}
		if !maps.Equal(g.localAddrs, anew.localAddrs) {
			t.Errorf("%s: ready on the node are %v, want %v", e.name, g.localAddrs, anew.localAddrs)
		}
		for o, r := range g.indexes {
			got, want := r.lists, anew.lists(o, r.criteria.flows)
			if !reflect.DeepEqual(got, want) || r.counts != anew.indexes[o].counts {
				t.Errorf("%s %+v: got\n\t%+v\nwant\n\t%+v", e.name, o, got, want)
			}
			if all, want := listed(g.slices, r), listed(anew.slices, anew.indexes[o]); !slices.Equal(all, want) {
				t.Errorf("%s %+v: got\n%s\nwant\n%s", e.name, o, lines(all), lines(want))
			}
		}
	}
}

// called is what a candidate stands for.
type called struct {
	Endpoint
	number uint16
	traits traits
}

// listed is who is on a roll.
func listed(p endpointSlices, r *endpointIndex) []called {
	var out []called
	for _, c := range r.candidates {
		out = append(out, called{*p.endpoint(c), c.number, c.traits})
	}
	return out
}

// crowdMap knows web with manySlices of ten pods, which it gives, and has said so.
func crowdMap(f Family, p Protocol) (*ServiceMap, []EndpointSlice) {
	m := NewServiceMap(Options{}, thisNode)
	m.SetService(webService(p, f))
	var from []EndpointSlice
	for i := range minCachedSlices {
		var pods []pod
		for k := range 10 {
			pods = append(pods, ready(10*i+k).on(there))
		}
		s := webSlice(f, p, pods...)
		s.Name.Name += fmt.Sprint("-", i)
		m.SetSlice(s)
		from = append(from, s)
	}
	m.Changes()
	return m, from
}

func TestSlicesAreGatheredOfServicesWithManyOnly(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m, from := crowdMap(f, p)
		gathered := func() bool { return m.services[web].cache != nil }
		if !gathered() {
			t.Errorf("not of %d slices", len(from))
		}
		m.DeleteSlice(from[0].Name)
		m.Changes()
		if gathered() {
			t.Errorf("of %d slices", len(from)-1)
		}
		m.SetSlice(from[0])
		m.Changes()
		m.DeleteService(web)
		m.Changes()
		if gathered() {
			t.Error("of a Service that is gone")
		}
	})
}

func TestListsThatStayAreTheSame(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m, from := crowdMap(f, p)
		m.SetOptions(Options{TCPFlowEndpoints: true})
		m.Changes()
		pool := func() *Pool { return m.services[web].frontends[0].Pool }
		before := pool()
		if before.FlowEndpoints != nil && &before.FlowEndpoints[0] != &before.Cluster[0] {
			t.Error("two lists of the same")
		}
		s := from[2]
		s.Endpoints = append(slices.Clone(s.Endpoints), notReady(1000).Endpoint)
		s.Endpoints[10].Addr = podIP(f, 1000)
		m.SetSlice(s)
		checkNothing(t, m.Changes())
		if after := pool(); &after.Cluster[0] != &before.Cluster[0] {
			t.Error("one that is not ready changed the list")
		}
	})
}

func TestAPortThatIsGoneIsForgotten(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m, _ := crowdMap(f, p)
		s := webService(p, f)
		s.Ports[0].Name = "other"
		m.SetService(s)
		m.Changes()
		rolls := m.services[web].cache.indexes
		if _, asked := rolls[portKey{"other", p, f}]; len(rolls) != 1 || !asked {
			t.Errorf("kept are %v", slices.Collect(maps.Keys(rolls)))
		}
	})
}

func TestASliceOfAnUnknownFamilyServesNobody(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m, from := crowdMap(f, p)
		s := from[1]
		s.Family = 9
		m.SetSlice(s)
		if got := m.Changes(); len(got.Set) != 1 || len(got.Set[0].Pool.Cluster) != 10*(minCachedSlices-1) {
			t.Errorf("got %+v", got)
		}
		m.SetSlice(from[1])
		if got := m.Changes(); len(got.Set) != 1 || len(got.Set[0].Pool.Cluster) != 10*minCachedSlices {
			t.Errorf("when it is of a family again: got %+v", got)
		}
	})
}

func TestAServiceThatShrinksGivesMemoryBack(t *testing.T) {
	m, from := bigMap(4000)
	for _, s := range from[minCachedSlices:] {
		m.DeleteSlice(s.Name)
		m.Changes()
	}
	for _, r := range m.services[web].cache.indexes {
		if len(r.candidates) != 100*minCachedSlices || cap(r.candidates) > 5*len(r.candidates) {
			t.Errorf("there is room for %d, and there are %d", cap(r.candidates), len(r.candidates))
		}
	}
}

// TestAnEndpointOfManyCostsOneCopyOfTheList counts bytes: with all endpoints
// sorted again, these would be some times as many.
func TestAnEndpointOfManyCostsOneCopyOfTheList(t *testing.T) {
	const endpoints = 20_000
	m, from := bigMap(endpoints)
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
		t.Errorf("%d bytes for each, and the list has %d", got, list)
	}
}

func TestPositionsOfDeletedSlicesAreReused(t *testing.T) {
	m, from := crowdMap(IPv4, TCP)
	m.SetSlice(EndpointSlice{Name: EndpointSliceName{"shop", "extra"}, Service: web})
	m.Changes()
	for i, s := range from {
		m.DeleteSlice(s.Name)
		m.Changes()
		s.Name.Name += "-again"
		m.SetSlice(s)
		m.Changes()
		if got := len(m.services[web].cache.slices); got != len(from)+1 {
			t.Errorf("after %d slices were replaced, %d positions, want %d", i+1, got, len(from)+1)
		}
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
