package model

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// The claimants of one address, the oldest first.
var (
	first  = claimant("a", 1)
	second = claimant("c", 2)
	third  = claimant("b", 2) // as old as second, and before it by name
)

// contested is the match of all claimants.
var contested = Match{clusterIP(IPv4, 10), 80, IPv4, TCP}

// claimant returns a Service that claims contested.
func claimant(name string, created int64) Service {
	s := webService(TCP, IPv4)
	s.Name.Name, s.Created = name, created
	return s
}

// conflict returns a conflict over contested.
func conflict(winner, loser Service) Conflict {
	return Conflict{contested, portOf(winner), portOf(loser)}
}

func portOf(s Service) ServicePortName { return s.portName(s.Ports[0]) }

// at returns the Service with its port at another number.
func at(s Service, port uint16) Service {
	s.Ports = []ServicePort{s.Ports[0]}
	s.Ports[0].Port = port
	return s
}

// holder returns the Service that holds contested; empty if there is none.
func holder(m *ServiceMap) string {
	for _, f := range m.Frontends() {
		if f.Match == contested {
			return f.Service.Name
		}
	}
	return ""
}

func checkConflicts(t *testing.T, got Changes, want ...Conflict) {
	t.Helper()
	if !slices.Equal(got.Conflicts, want) {
		t.Errorf("conflicts: got\n%s\nwant\n%s", lines(got.Conflicts), lines(want))
	}
}

func TestOldestClaimWinsInAnyOrder(t *testing.T) {
	services := []Service{first, second, third}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		random.Shuffle(len(services), func(i, j int) { services[i], services[j] = services[j], services[i] })
		together, apart := NewServiceMap(Options{}, thisNode), NewServiceMap(Options{}, thisNode)
		for _, s := range services {
			together.SetService(s)
			apart.SetService(s)
			apart.Changes()
		}
		got := together.Changes()
		checkConflicts(t, got, conflict(first, third), conflict(first, second))
		if len(got.Set) != 1 || got.Set[0].Service != portOf(first) {
			t.Errorf("set: %v", got.Set)
		}
		for _, m := range []*ServiceMap{together, apart} {
			if holder(m) != "a" {
				t.Errorf("%s is the holder", holder(m))
			}
		}
	}
}

func TestConflictIsReportedOnce(t *testing.T) {
	m := NewServiceMap(Options{}, thisNode)
	m.SetService(first)
	m.SetService(second)
	checkConflicts(t, m.Changes(), conflict(first, second))

	// These events do not change the conflict.
	m.SetService(second)
	m.SetSlice(webSlice(IPv4, TCP, ready(1)))
	checkConflicts(t, m.Changes())
	m.SetNode(Node{Name: there})
	m.SetService(first)
	checkConflicts(t, m.Changes())

	m.SetService(third)
	checkConflicts(t, m.Changes(), conflict(first, third))
}

func TestNewConflictIsReportedAgain(t *testing.T) {
	for name, goAway := range map[string]func(*ServiceMap){
		"the loser was deleted":          func(m *ServiceMap) { m.DeleteService(second.Name) },
		"the winner was deleted":         func(m *ServiceMap) { m.DeleteService(first.Name) },
		"the loser had another port":     func(m *ServiceMap) { m.SetService(at(second, 81)) },
		"the winner had another port":    func(m *ServiceMap) { m.SetService(at(first, 81)) },
		"the winner was the loser":       func(m *ServiceMap) { m.SetService(claimant("a", 3)) },
		"the loser had another protocol": func(m *ServiceMap) { m.SetService(changed(second, func(s *Service) { s.Ports[0].Protocol = UDP })) },
		"the loser had another address": func(m *ServiceMap) {
			m.SetService(changed(second, func(s *Service) { s.ClusterIPs = []netip.Addr{clusterIP(IPv4, 11)} }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewServiceMap(Options{}, thisNode)
			m.SetService(first)
			m.SetService(second)
			m.Changes()
			goAway(m)
			m.Changes()
			m.SetService(first)
			m.SetService(second)
			checkConflicts(t, m.Changes(), conflict(first, second))
			if holder(m) != "a" {
				t.Errorf("%q is the holder", holder(m))
			}
		})
	}
}

func TestConflictBetweenChangesIsNotReported(t *testing.T) {
	m := NewServiceMap(Options{}, thisNode)
	m.SetService(second)
	m.SetService(first)
	m.SetService(at(first, 81))
	got := m.Changes()
	checkConflicts(t, got)
	if len(got.Set) != 2 {
		t.Errorf("set: %v", got.Set)
	}
}

func TestLoserTakesOver(t *testing.T) {
	tests := map[string]func(*ServiceMap){
		"when the winner is deleted":           func(m *ServiceMap) { m.DeleteService(first.Name) },
		"when the winner changes its port":     func(m *ServiceMap) { m.SetService(at(first, 8000)) },
		"when the winner becomes younger":      func(m *ServiceMap) { m.SetService(claimant("a", 9)) },
		"when the winner loses its address":    func(m *ServiceMap) { m.SetService(changed(first, func(s *Service) { s.ClusterIPs = nil })) },
		"when the winner loses all ports":      func(m *ServiceMap) { m.SetService(changed(first, func(s *Service) { s.Ports = nil })) },
		"when the loser becomes older":         func(m *ServiceMap) { m.SetService(claimant("b", 0)) },
		"when the winner is deleted and added": func(m *ServiceMap) { m.DeleteService(first.Name); m.SetService(claimant("a", 3)) },
	}
	for name, event := range tests {
		t.Run(name, func(t *testing.T) {
			m := NewServiceMap(Options{}, thisNode)
			for _, s := range []Service{first, second, third} {
				m.SetService(s)
			}
			s := webSlice(IPv4, TCP, ready(7))
			s.Service = third.Name
			m.SetSlice(s)
			m.Changes()
			event(m)
			got := m.Changes()
			i := slices.IndexFunc(got.Set, func(f Frontend) bool { return f.Match == contested })
			if i < 0 || got.Set[i].Service != portOf(third) || !slices.Equal(serving(&got.Set[i]), podPorts(IPv4, 7)) {
				t.Errorf("set: %v", got.Set)
			}
			if slices.Contains(got.Gone, contested) || holder(m) != "b" {
				t.Errorf("gone: %v; %q is the holder", got.Gone, holder(m))
			}
			if !slices.Contains(m.Conflicts(), conflict(third, second)) {
				t.Errorf("conflicts: %v", m.Conflicts())
			}
			if slices.Contains(got.Conflicts, conflict(third, second)) {
				t.Error("a conflict of a claim that lost before is reported again")
			}
		})
	}
}

func TestDuplicateClusterIPIsNoConflict(t *testing.T) {
	twice := func(s Service) Service {
		s.ClusterIPs = slices.Repeat(s.ClusterIPs, 2)
		return s
	}
	m := NewServiceMap(Options{}, thisNode)
	m.SetService(twice(first))
	got := m.Changes()
	checkConflicts(t, got)
	if len(got.Set) != 1 {
		t.Errorf("set %v", got.Set)
	}
	m.SetService(twice(second))
	checkConflicts(t, m.Changes(), conflict(first, second))
	m.DeleteService(first.Name)
	checkConflicts(t, m.Changes())
	m.DeleteService(second.Name)
	if got := m.Changes(); !slices.Equal(got.Gone, []Match{contested}) {
		t.Errorf("gone %v", got.Gone)
	}
	checkEmpty(t, m)
}

func TestConflictsAreSortedByMatchThenByAge(t *testing.T) {
	m := NewServiceMap(Options{}, thisNode)
	var want []Conflict
	winner := claimant("z", 0)
	winner.Ports = []ServicePort{{"b", TCP, 80, 0}, {"a", TCP, 79, 0}}
	m.SetService(winner)
	for i := 30; i > 0; i-- {
		s := claimant(string(rune('a'+i%7))+string(rune('a'+i)), int64(i))
		s.Ports = winner.Ports
		m.SetService(s)
		for _, p := range winner.Ports {
			match := Match{clusterIP(IPv4, 10), p.Port, IPv4, TCP}
			want = append(want, Conflict{match, winner.portName(p), s.portName(p)})
		}
	}
	slices.Reverse(want)
	slices.SortStableFunc(want, func(a, b Conflict) int { return a.Match.Compare(b.Match) })
	checkConflicts(t, m.Changes(), want...)
}
