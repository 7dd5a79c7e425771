package model

import (
	"slices"
	"testing"
)

func TestWhatIsKnownStaysAsItWas(t *testing.T) {
	m := NewServiceMap(Options{}, thisNode)
	slice := webSlice(IPv4, TCP, ready(1))
	slice.Name, slice.Service = EndpointSliceName{"shop", "web-1"}, web
	m.SetSlice(slice)
	if known := m.Snapshot(); len(known) != 0 {
		t.Errorf("of slices alone, Services are known: %v", known)
	}
	m.SetService(Service{Name: web, UID: "1"})
	before := m.Snapshot()
	other := slice
	other.Endpoints = nil
	m.SetSlice(other)
	m.SetService(Service{Name: web, UID: "2"})
	if len(before) != 1 || before[0].UID != "1" || len(before[0].Slices) != 1 || len(before[0].Slices[0].Endpoints) != 1 {
		t.Errorf("what was known has become %+v", before)
	}
	after := m.Snapshot()
	if len(after) != 1 || after[0].UID != "2" || len(after[0].Slices[0].Endpoints) != 0 {
		t.Errorf("known is %+v", after)
	}
	m.DeleteService(web)
	if known := m.Snapshot(); len(known) != 0 {
		t.Errorf("a Service that is gone is known: %v", known)
	}
}

func TestLostClaimsAreListedWhileTheyAreLost(t *testing.T) {
	for _, f := range Families {
		m := NewServiceMap(Options{}, thisNode)
		of := func(name string, created int64) Service {
			s := Service{Name: ServiceName{"shop", name}, Created: created}
			s.ClusterIPs = append(s.ClusterIPs, clusterIP(f, 1))
			s.Ports = []ServicePort{{Name: "a", Protocol: SCTP, Port: 1}, {Name: "b", Protocol: UDP, Port: 2}}
			return s
		}
		m.SetService(of("old", 1))
		m.SetService(of("young", 2))
		want := m.Changes().Conflicts
		got := m.Conflicts()
		slices.SortFunc(got, func(a, b Conflict) int { return a.Match.Compare(b.Match) })
		if len(want) != 2 || !slices.Equal(got, want) {
			t.Errorf("lost are %v, want %v", got, want)
		}
		m.DeleteService(ServiceName{"shop", "old"})
		m.Changes()
		if got := m.Conflicts(); len(got) != 0 {
			t.Errorf("still lost are %v", got)
		}
	}
}
