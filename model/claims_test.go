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

// competitor returns a Service whose ClusterIP and age follow from its name: a has
// ClusterIP 20 and is the oldest, b has 21, and so on.
func competitor(name string, f Family, p Protocol, changes ...func(*Service)) Service {
	s := webService(p, f)
	k := int(name[0] - 'a')
	s.Name.Name, s.Created, s.ClusterIPs[0] = name, int64(k), clusterIP(f, 20+k)
	return changed(s, changes...)
}

// What competitors claim in addition to their ClusterIP.
func withExternalIP(a netip.Addr) func(*Service) {
	return func(s *Service) { s.ExternalIPs = append(s.ExternalIPs, a) }
}

func withLoadBalancerIP(a netip.Addr) func(*Service) {
	return func(s *Service) { s.LoadBalancerIPs = append(s.LoadBalancerIPs, a) }
}

func portOf(s Service) ServicePortName { return s.portName(s.Ports[0]) }

// checkHolder checks that a Service holds the match in any order of events.
func checkHolder(t *testing.T, m Match, holder Service, all ...Service) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		together, apart := NewServiceMap(Options{}, thisNode), NewServiceMap(Options{}, thisNode)
		for _, s := range all {
			together.SetService(s)
			apart.SetService(s)
			apart.Changes()
		}
		together.Changes()
		for _, services := range []*ServiceMap{together, apart} {
			if f := services.claims.winners[m]; f == nil || f.Service != portOf(holder) {
				t.Errorf("%s is held by %v, want %s", m, f, holder.Name)
			}
		}
	}
}

func TestOldestClaimWinsInAnyOrder(t *testing.T) {
	checkHolder(t, contested, first, first, second, third)
}

func TestClusterIPWinsOverOlderExternalAddress(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		owner := competitor("c", f, p)
		ip := owner.ClusterIPs[0]
		checkHolder(t, Match{ip, 80, f, p}, owner,
			owner, competitor("a", f, p, withExternalIP(ip)), competitor("b", f, p, withLoadBalancerIP(ip)))
	})
}

// The author of a Service writes its external IPs. An early one must not get the traffic
// of a load balancer that is assigned the address later.
func TestLoadBalancerIPWinsOverOlderExternalIP(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		ip := externalIP(f, 1)
		balanced := competitor("b", f, p, withLoadBalancerIP(ip))
		checkHolder(t, Match{ip, 80, f, p}, balanced, balanced, competitor("a", f, p, withExternalIP(ip)))
	})
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
	if got := m.Changes().Conflicts; !slices.Equal(got, want) {
		t.Errorf("conflicts: got\n%s\nwant\n%s", lines(got), lines(want))
	}
}
