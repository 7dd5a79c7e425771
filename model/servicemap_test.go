package model

import (
	"slices"
	"testing"
)

// webMap returns a map with Service web and pod 1 on this node. Changes has been called.
func webMap() *ServiceMap {
	m := NewServiceMap(Options{}, thisNode)
	m.SetService(webService(TCP, IPv4))
	m.SetSlice(webSlice(IPv4, TCP, ready(1).on(here)))
	m.Changes()
	return m
}

// checkNothing fails if there are changes.
func checkNothing(t *testing.T, got Changes) {
	t.Helper()
	if len(got.Set)+len(got.Gone)+len(got.Conflicts)+len(got.HealthChecks) > 0 {
		t.Errorf("got %+v", got)
	}
}

// checkEmpty fails if the map remembers anything.
func checkEmpty(t *testing.T, m *ServiceMap) {
	t.Helper()
	for name, n := range map[string]int{
		"services": len(m.services), "known": m.count, "slices": len(m.slices), "dirty": len(m.dirty),
		"matches": len(m.claims.byMatch), "winners": len(m.claims.winners), "loser counts": len(m.claims.loserCounts), "losers": m.claims.loserTotal,
		"health checks": len(m.health),
	} {
		if n != 0 {
			t.Errorf("%d %s remain", n, name)
		}
	}
}

func TestChangesAfterEvents(t *testing.T) {
	tests := map[string]struct {
		event func(*ServiceMap)
		set   []int // pods of the one frontend that is set; nil for none, empty for one without endpoints
		gone  bool
	}{
		"nothing without an event":        {event: func(*ServiceMap) {}},
		"nothing for the same Service":    {event: func(m *ServiceMap) { m.SetService(webService(TCP, IPv4)) }},
		"nothing for the same slice":      {event: func(m *ServiceMap) { m.SetSlice(webSlice(IPv4, TCP, ready(1).on(here))) }},
		"nothing for the same node":       {event: func(m *ServiceMap) { m.SetNode(thisNode) }},
		"nothing for an unknown Service":  {event: func(m *ServiceMap) { m.DeleteService(ServiceName{"shop", "x"}) }},
		"nothing for an unknown slice":    {event: func(m *ServiceMap) { m.DeleteSlice(EndpointSliceName{"shop", "x"}) }},
		"nothing for an endpoint unready": {event: func(m *ServiceMap) { m.SetSlice(webSlice(IPv4, TCP, ready(1).on(here), notReady(2))) }},
		"nothing for hints for all zones": {event: func(m *ServiceMap) { m.SetSlice(webSlice(IPv4, TCP, ready(1).on(here).zones(zoneB))) }},
		"nothing for a slice of no Service": {event: func(m *ServiceMap) {
			m.SetSlice(EndpointSlice{Name: EndpointSliceName{"x", "x"}, Service: ServiceName{"x", "x"}})
		}},
		"nothing for another family's slice": {
			event: func(m *ServiceMap) { m.SetSlice(webSlice(IPv6, TCP, ready(2))) },
		},
		"nothing for a Service that is added and deleted": {event: func(m *ServiceMap) {
			m.SetService(first)
			m.DeleteService(first.Name)
			m.DeleteService(first.Name)
		}},
		"nothing for a Service that is deleted and added": {event: func(m *ServiceMap) {
			m.DeleteService(web)
			m.SetService(webService(TCP, IPv4))
		}},
		"an endpoint more": {
			event: func(m *ServiceMap) { m.SetSlice(webSlice(IPv4, TCP, ready(1).on(here), ready(2))) },
			set:   []int{1, 2},
		},
		"a slice more": {event: func(m *ServiceMap) {
			s := webSlice(IPv4, TCP, ready(2))
			s.Name.Name = "another"
			m.SetSlice(s)
		}, set: []int{1, 2}},
		"the endpoint that is no longer there": {
			event: func(m *ServiceMap) { m.SetSlice(webSlice(IPv4, TCP)) },
			set:   []int{},
		},
		"the slice that is no longer there": {
			event: func(m *ServiceMap) { m.DeleteSlice(webSlice(IPv4, TCP).Name) },
			set:   []int{},
		},
		"the endpoint that is on another node": {
			event: func(m *ServiceMap) { m.SetSlice(webSlice(IPv4, TCP, ready(1).on(there))) },
			set:   []int{1},
		},
		"the node that is another": {
			event: func(m *ServiceMap) { m.SetNode(Node{Name: there, Zone: zoneA}) },
			set:   []int{1},
		},
		"the Service that is gone": {
			event: func(m *ServiceMap) { m.DeleteService(web) },
			gone:  true,
		},
		"the Service that is gone with its slices": {event: func(m *ServiceMap) {
			m.DeleteSlice(webSlice(IPv4, TCP).Name)
			m.DeleteService(web)
		}, gone: true},
		"the Service without its address": {
			event: func(m *ServiceMap) { m.SetService(webService(TCP)) },
			gone:  true,
		},
		"the slice that is another Service's": {event: func(m *ServiceMap) {
			s := webSlice(IPv4, TCP, ready(1).on(here))
			s.Service.Name = "other"
			m.SetSlice(s)
		}, set: []int{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := webMap()
			test.event(m)
			got := m.Changes()
			var gone []Match
			if test.gone {
				gone = []Match{contested}
			}
			if !slices.Equal(got.Gone, gone) {
				t.Errorf("gone: got %v, want %v", got.Gone, gone)
			}
			switch {
			case test.set == nil:
				if len(got.Set) > 0 {
					t.Errorf("set: got %v", got.Set)
				}
			case len(got.Set) != 1 || !slices.Equal(serving(&got.Set[0]), podPorts(IPv4, test.set...)):
				t.Errorf("set: got %v, want pods %v", got.Set, test.set)
			}
			checkNothing(t, m.Changes())
		})
	}
}

func TestSameNodeCostsNothing(t *testing.T) {
	m := webMap()
	m.SetNode(thisNode)
	if len(m.dirty) > 0 {
		t.Errorf("%d Services are to be computed again", len(m.dirty))
	}
}

func TestSlicesMayArriveBeforeService(t *testing.T) {
	m := NewServiceMap(Options{}, thisNode)
	m.SetSlice(webSlice(IPv4, TCP, ready(1)))
	checkNothing(t, m.Changes())
	if m.Len() != 0 {
		t.Errorf("%d Services", m.Len())
	}
	m.SetService(webService(TCP, IPv4))
	if got := m.Changes(); len(got.Set) != 1 || got.Set[0].Verdict != VerdictBalance {
		t.Errorf("got %+v", got)
	}
	m.DeleteService(web)
	m.Changes()
	m.SetService(webService(TCP, IPv4))
	if got := m.Changes(); len(got.Set) != 1 || got.Set[0].Verdict != VerdictBalance {
		t.Errorf("after the Service was deleted: got %+v", got)
	}
}

func TestServiceByName(t *testing.T) {
	m := webMap()
	m.SetSlice(EndpointSlice{Name: EndpointSliceName{"x", "x"}, Service: ServiceName{"x", "x"}})
	if got := m.Service(web); got == nil || got.Name != web {
		t.Errorf("got %+v", got)
	}
	for _, name := range []ServiceName{{"x", "x"}, {"y", "y"}} {
		if got := m.Service(name); got != nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	m.DeleteService(web)
	if got := m.Service(web); got != nil {
		t.Errorf("after it was deleted, got %+v", got)
	}
}

func TestFrontendsAreThoseOfLastChanges(t *testing.T) {
	m := webMap()
	before := m.Frontends()
	m.SetService(first)
	m.DeleteService(web)
	checkFrontends(t, m.Frontends(), before)
	m.Changes()
	if got := m.Frontends(); len(got) != 1 || got[0].Service != portOf(first) {
		t.Errorf("got %v", got)
	}
}
