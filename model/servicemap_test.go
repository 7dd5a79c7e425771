package model

import "testing"

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
	if len(got.Set)+len(got.Removed)+len(got.Conflicts)+len(got.HealthChecks) > 0 {
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

func TestSameNodeCostsNothing(t *testing.T) {
	m := webMap()
	m.SetNode(thisNode)
	if len(m.dirty) > 0 {
		t.Errorf("%d Services are to be computed again", len(m.dirty))
	}
}

func TestFrontendsAreThoseOfLastChanges(t *testing.T) {
	m := webMap()
	before := m.Frontends()
	other := webService(TCP, IPv4)
	other.Name.Name = "other"
	m.SetService(other)
	m.DeleteService(web)
	checkExactly(t, m.Frontends(), before)
	m.Changes()
	if got := m.Frontends(); len(got) != 1 || got[0].Service.ServiceName != other.Name {
		t.Errorf("got %v", got)
	}
}
