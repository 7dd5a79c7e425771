package model

import (
	"net/netip"
	"slices"
	"testing"
)

// player is a Service with ClusterIP number 20 and the place of its name in the
// alphabet, of that age too: a is the oldest.
func player(name string, f Family, p Protocol, changes ...func(*Service)) Service {
	s := webService(p, f)
	k := int(name[0] - 'a')
	s.Name.Name, s.Created, s.ClusterIPs[0] = name, int64(k), clusterIP(f, 20+k)
	return changed(s, changes...)
}

// What players claim beside their ClusterIP, or instead.
func external(a netip.Addr) func(*Service) {
	return func(s *Service) { s.ExternalIPs = append(s.ExternalIPs, a) }
}

func balanced(a netip.Addr) func(*Service) {
	return func(s *Service) { s.LoadBalancerIPs = append(s.LoadBalancerIPs, a) }
}

func nodePort(port uint16) func(*Service) {
	return func(s *Service) { s.Ports[0].NodePort = port }
}

func inside(a netip.Addr) func(*Service) {
	return func(s *Service) { s.ClusterIPs[0] = a }
}

// otherProtocol is one that is not the protocol.
var otherProtocol = map[Protocol]Protocol{TCP: UDP, UDP: SCTP, SCTP: TCP}

// owners tells who holds what, sorted.
func owners(m *ServiceMap) []string {
	var out []string
	for _, fe := range m.Frontends() {
		out = append(out, fe.Service.Name+" "+fe.Kind.String()+" "+fe.Match.String())
	}
	return out
}

// held is a line of owners.
func held(name string, k Kind, m Match) string { return name + " " + k.String() + " " + m.String() }

func checkOwners(t *testing.T, m *ServiceMap, want ...string) {
	t.Helper()
	if got := owners(m); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", lines(got), lines(want))
	}
}

// set makes a map of Services, of which Changes has been asked.
func set(services ...Service) *ServiceMap {
	m := NewServiceMap(Options{}, thisNode)
	for _, s := range services {
		m.SetService(s)
	}
	m.Changes()
	return m
}

func TestAClusterIPWinsOverAnyOtherKindOfAnyAge(t *testing.T) {
	for what, claim := range map[string]func(netip.Addr) func(*Service){"external": external, "load balancer": balanced} {
		for _, thief := range []string{"a", "c"} { // older and younger than the victim
			t.Run(what+" IP of "+thief, func(t *testing.T) {
				every(t, func(t *testing.T, f Family, p Protocol) {
					victim := player("b", f, p)
					stolen := Match{f, victim.ClusterIPs[0], p, 80}
					claimant := player(thief, f, p, claim(victim.ClusterIPs[0]), nodePort(30080))
					lost := Conflict{stolen, portOf(victim), portOf(claimant)}

					together := NewServiceMap(Options{}, thisNode)
					together.SetService(claimant)
					together.SetService(victim)
					checkConflicts(t, together.Changes(), lost)

					// The thief comes first, and loses what it had.
					m := set(claimant)
					m.SetService(victim)
					got := m.Changes()
					checkConflicts(t, got, lost)
					checkChanges(t, got, []Match{stolen}, nil)
					if !slices.Equal(owners(m), owners(together)) || got.Set[0].Kind != KindClusterIP || m.ConflictCount() != 1 {
						t.Errorf("one after the other\n%s\ntogether\n%s", lines(owners(m)), lines(owners(together)))
					}

					// Its other addresses it keeps, and this one it gets when nobody else has it.
					m.DeleteService(victim.Name)
					got = m.Changes()
					checkChanges(t, got, []Match{stolen}, nil)
					if got.Set[0].Kind == KindClusterIP || got.Set[0].Service != portOf(claimant) || m.ConflictCount() != 0 {
						t.Errorf("got\n%s", frontendLines(got.Set))
					}
				})
			})
		}
	}
}

// External IPs are what a Service's author writes: who writes one early must not get
// the traffic of a load balancer that is given the address later.
func TestAnExternalIPDoesNotTakeALoadBalancersAddress(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		shared := outsideIP(f, 1)
		older, younger := player("a", f, p, external(shared)), player("b", f, p, balanced(shared))
		match := Match{f, shared, p, 80}
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(older)
		m.Changes()
		m.SetService(younger)
		got := m.Changes()
		checkConflicts(t, got, Conflict{match, portOf(younger), portOf(older)})
		checkChanges(t, got, []Match{{f, younger.ClusterIPs[0], p, 80}, match}, nil)
		m.DeleteService(younger.Name)
		if got = m.Changes(); len(got.Set) != 1 || got.Set[0].Service != portOf(older) {
			t.Errorf("when it goes, got\n%s", frontendLines(got.Set))
		}
	})
}

func TestOfTwoServicesAtOneAddressTheOlderWinsUntilItGoes(t *testing.T) {
	shared := func(f Family) netip.Addr { return outsideIP(f, 1) }
	tests := map[string]func(netip.Addr) func(*Service){"load balancer IP": balanced, "external IP": external}
	for what, first := range tests {
		for other, second := range tests {
			if what == "external IP" && other != what {
				continue // see TestAnExternalIPDoesNotTakeALoadBalancersAddress
			}
			t.Run(what+" and "+other, func(t *testing.T) {
				every(t, func(t *testing.T, f Family, p Protocol) {
					a, b := player("a", f, p, first(shared(f))), player("b", f, p, second(shared(f)))
					match := Match{f, shared(f), p, 80}
					m := NewServiceMap(Options{}, thisNode)
					m.SetService(b)
					checkConflicts(t, m.Changes())
					m.SetService(a)
					got := m.Changes()
					checkConflicts(t, got, Conflict{match, portOf(a), portOf(b)})
					checkChanges(t, got, []Match{{f, a.ClusterIPs[0], p, 80}, match}, nil)

					// The loser's own ClusterIP is none of it.
					m.DeleteService(a.Name)
					got = m.Changes()
					checkConflicts(t, got)
					checkChanges(t, got, []Match{match}, []Match{{f, a.ClusterIPs[0], p, 80}})
					if got.Set[0].Service != portOf(b) || got.Set[0].Pool.Key.Addr != b.ClusterIPs[0] {
						t.Errorf("got\n%s", frontendLines(got.Set))
					}
				})
			})
		}
	}
}

func TestALoserOfItsClusterIPLosesEverythingElseUntilTheWinnerGoes(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		ip, outside := clusterIP(f, 10), outsideIP(f, 1)
		a := player("a", f, p, inside(ip))
		b := player("b", f, p, inside(ip), nodePort(30080), external(outside), balanced(outsideIP(f, 2)))
		c := player("c", f, p, external(outside), nodePort(30081))
		var (
			fought   = Match{f, ip, p, 80}
			ofNode   = Match{Family: f, Protocol: p, Port: 30080}
			shared   = Match{f, outside, p, 80}
			balanced = Match{f, outsideIP(f, 2), p, 80}
			ofC      = []string{
				held("c", KindNodePort, Match{Family: f, Protocol: p, Port: 30081}),
				held("c", KindClusterIP, Match{f, c.ClusterIPs[0], p, 80}),
			}
		)
		m := NewServiceMap(Options{}, thisNode)
		for _, s := range []Service{c, b, a} {
			m.SetService(s)
		}
		// That b has no external IP either is no conflict of its own: c has no older claimant.
		checkConflicts(t, m.Changes(), Conflict{fought, portOf(a), portOf(b)})
		checkOwners(t, m, ofC[0], held("a", KindClusterIP, fought), ofC[1], held("c", KindExternalIP, shared))

		// Whatever happens to the loser, nothing of it is programmed.
		slice := webSlice(f, p, ready(1))
		slice.Service = b.Name
		m.SetSlice(slice)
		checkNothing(t, m.Changes())

		// The winner goes: everything is the next one's, in one go; even what a younger one had.
		m.DeleteService(a.Name)
		got := m.Changes()
		checkChanges(t, got, []Match{ofNode, fought, shared, balanced}, nil)
		checkConflicts(t, got, Conflict{shared, portOf(b), portOf(c)})
		for _, fe := range got.Set {
			if fe.Service != portOf(b) || fe.Verdict != VerdictBalance || fe.Pool != got.pool(fought) {
				t.Errorf("got\n%s", frontendLines([]Frontend{fe}))
			}
		}

		// And it comes back.
		m.SetService(a)
		got = m.Changes()
		checkChanges(t, got, []Match{fought, shared}, []Match{ofNode, balanced})
		checkConflicts(t, got, Conflict{fought, portOf(a), portOf(b)})
		checkOwners(t, m, ofC[0], held("a", KindClusterIP, fought), ofC[1], held("c", KindExternalIP, shared))

		for _, s := range []Service{a, b, c} {
			m.DeleteService(s.Name)
		}
		m.DeleteSlice(slice.Name)
		m.Changes()
		checkEmpty(t, m)
	})
}

func TestALoserGetsEverythingHoweverTheWinnerLeaves(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		ip := clusterIP(f, 10)
		a, b := player("a", f, p, inside(ip)), player("b", f, p, inside(ip), nodePort(30080))
		mine := Match{Family: f, Protocol: p, Port: 30080}
		for what, leave := range map[string]Service{
			"another address":  changed(a, inside(clusterIP(f, 11))),
			"no address":       changed(a, func(s *Service) { s.ClusterIPs = nil }),
			"another port":     at(a, 81),
			"no port":          changed(a, func(s *Service) { s.Ports = nil }),
			"another age":      changed(a, func(s *Service) { s.Created = 9 }),
			"another protocol": changed(a, func(s *Service) { s.Ports[0].Protocol = otherProtocol[p] }),
		} {
			m := set(a, b)
			m.SetService(leave)
			got := m.Changes()
			if i := slices.IndexFunc(got.Set, func(fe Frontend) bool { return fe.Match == mine }); i < 0 || got.Set[i].Service != portOf(b) {
				t.Errorf("%s: set\n%s", what, frontendLines(got.Set))
			}
			m.SetService(a)
			if got := m.Changes(); !slices.Contains(got.Gone, mine) {
				t.Errorf("%s, and back: gone\n%s", what, lines(got.Gone))
			}
		}
	})
}

// Only the port that lost is out, and only in the family where it did.
func TestALostClusterIPIsThatOfOnePortInOneFamily(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		other := IPv4 + IPv6 - f
		a := player("a", f, p, inside(clusterIP(f, 10)))
		b := webService(p, Families[:]...)
		b.Name.Name, b.Created = "b", 1
		b.Ports = []ServicePort{{"http", p, 80, 30080}, {"admin", p, 81, 30081}}
		m := set(a, b)
		want := map[Family][]string{
			f: {
				held("b", KindNodePort, Match{Family: f, Protocol: p, Port: 30081}),
				held("a", KindClusterIP, Match{f, clusterIP(f, 10), p, 80}),
				held("b", KindClusterIP, Match{f, clusterIP(f, 10), p, 81}),
			},
			other: {
				held("b", KindNodePort, Match{Family: other, Protocol: p, Port: 30080}),
				held("b", KindNodePort, Match{Family: other, Protocol: p, Port: 30081}),
				held("b", KindClusterIP, Match{other, clusterIP(other, 10), p, 80}),
				held("b", KindClusterIP, Match{other, clusterIP(other, 10), p, 81}),
			},
		}
		checkOwners(t, m, slices.Concat(want[IPv4], want[IPv6])...)
	})
}

func TestAnAddressListedTwiceIsALoadBalancerIPFirst(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		ip := outsideIP(f, 1)
		match := Match{f, ip, p, 80}
		ranges := func(s *Service) { s.SourceRanges = []netip.Prefix{sourceRange(f, 128, 25)} }
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(player("a", f, p, external(ip), balanced(ip), external(ip), ranges))
		got := m.Changes()
		checkConflicts(t, got)
		checkChanges(t, got, []Match{{f, clusterIP(f, 20), p, 80}, match}, nil)
		if fe := got.Set[1]; fe.Kind != KindLoadBalancerIP || !fe.Restricted {
			t.Errorf("got\n%s", frontendLines(got.Set[1:]))
		}
		m.SetService(player("a", f, p, external(ip), ranges))
		got = m.Changes()
		checkChanges(t, got, []Match{match}, nil)
		if fe := got.Set[0]; fe.Kind != KindExternalIP || fe.Restricted {
			t.Errorf("got\n%s", frontendLines(got.Set))
		}
		m.SetService(player("a", f, p))
		checkChanges(t, m.Changes(), nil, []Match{match})
	})
}

func TestAServicesOwnClusterIPIsThatWhateverElseItIsListedAs(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		ip := clusterIP(f, 20)
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(player("a", f, p, external(ip), balanced(ip)))
		got := m.Changes()
		checkConflicts(t, got)
		checkOwners(t, m, held("a", KindClusterIP, Match{f, ip, p, 80}))
		m.SetService(player("a", f, p))
		if got := m.Changes(); len(got.Gone) > 0 {
			t.Errorf("gone\n%s", lines(got.Gone))
		}
		m.DeleteService(ServiceName{web.Namespace, "a"})
		checkChanges(t, m.Changes(), nil, []Match{{f, ip, p, 80}})
		checkEmpty(t, m)
	})
}

func TestOfAServicesOwnPortsOnlyTheFirstHasANodePort(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		s := player("a", f, p)
		s.Ports = []ServicePort{{"b", p, 80, 30080}, {"a", p, 80, 30081}}
		name := func(port string) ServicePortName { return ServicePortName{s.Name, port, p} }
		ofNode := func(port uint16) Match { return Match{Family: f, Protocol: p, Port: port} }
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(s)
		got := m.Changes()
		key := Match{f, clusterIP(f, 20), p, 80}
		checkConflicts(t, got, Conflict{key, name("b"), name("a")})
		checkChanges(t, got, []Match{ofNode(30080), key}, nil)
		m.SetService(changed(s, func(s *Service) { s.Ports = s.Ports[1:] }))
		checkChanges(t, m.Changes(), []Match{ofNode(30081), key}, []Match{ofNode(30080)})
	})
}

func TestServicesWithOneNodePortAreDecidedLikeAnyOthers(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		a, b := player("a", f, p, nodePort(30080)), player("b", f, p, nodePort(30080))
		match := Match{Family: f, Protocol: p, Port: 30080}
		m := set(b)
		m.SetService(a)
		got := m.Changes()
		checkConflicts(t, got, Conflict{match, portOf(a), portOf(b)})
		if got.Set[0].Match != match || got.Set[0].Service != portOf(a) {
			t.Errorf("set\n%s", frontendLines(got.Set))
		}
		m.DeleteService(a.Name)
		if got := m.Changes(); got.Set[0].Match != match || got.Set[0].Service != portOf(b) {
			t.Errorf("set\n%s", frontendLines(got.Set))
		}
	})
}

func TestServicesThatClaimEachOthersClusterIPKeepTheirOwn(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		one, two := clusterIP(f, 20), clusterIP(f, 21)
		a, b := player("a", f, p, external(two)), player("b", f, p, external(one))
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(a)
		m.SetService(b)
		checkConflicts(t, m.Changes(),
			Conflict{Match{f, one, p, 80}, portOf(a), portOf(b)}, Conflict{Match{f, two, p, 80}, portOf(b), portOf(a)})
		checkOwners(t, m, held("a", KindClusterIP, Match{f, one, p, 80}), held("b", KindClusterIP, Match{f, two, p, 80}))
	})
}

// TestANodePortHoldsItsPortOnTheAddressesThatServeIt has an older Service list an
// address of the node as its external IP: the address and port are the node port's
// while the node has both.
func TestANodePortHoldsItsPortOnTheAddressesThatServeIt(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{}, thisNode)
		thief, owner := player("a", f, p), player("b", f, p)
		thief.Created, owner.Created = 1, 2
		thief.ExternalIPs, thief.Ports[0].Port = []netip.Addr{nodeIP(f, 1)}, 30080
		owner.Ports[0].NodePort = 30080
		match := Match{f, nodeIP(f, 1), p, 30080}
		served := func() bool {
			return slices.ContainsFunc(m.Frontends(), func(fe Frontend) bool { return fe.Match == match })
		}
		m.SetService(thief)
		m.SetService(owner)
		checkConflicts(t, m.Changes())
		if !served() {
			t.Error("an address that serves no node ports is not served")
		}
		m.SetNodeAddrs([]netip.Addr{nodeIP(f, 1)})
		checkConflicts(t, m.Changes(), Conflict{match, portOf(owner), portOf(thief)})
		if served() || m.ConflictCount() != 1 {
			t.Errorf("the node port is taken: %t, conflicts %d", served(), m.ConflictCount())
		}
		m.DeleteService(owner.Name)
		checkConflicts(t, m.Changes())
		if !served() || m.ConflictCount() != 0 {
			t.Errorf("without the node port, served: %t, conflicts %d", served(), m.ConflictCount())
		}
		m.SetService(owner)
		m.Changes()
		m.SetNodeAddrs(nil)
		checkConflicts(t, m.Changes())
		if !served() || m.ConflictCount() != 0 {
			t.Errorf("without the node address, served: %t, conflicts %d", served(), m.ConflictCount())
		}
	})
}

// TestAnOwnNodePortThatMovesToAnotherServiceIsANewConflict: at an address that serves
// node ports, a Service does not conflict with its own node port, but with that of
// another one.
func TestAnOwnNodePortThatMovesToAnotherServiceIsANewConflict(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{}, thisNode)
		m.SetNodeAddrs([]netip.Addr{nodeIP(f, 1)})
		a, b := player("a", f, p), player("b", f, p)
		a.ExternalIPs, a.Ports[0].Port, a.Ports[0].NodePort = []netip.Addr{nodeIP(f, 1)}, 30080, 30080
		m.SetService(a)
		m.SetService(b)
		checkConflicts(t, m.Changes())
		a.Ports = slices.Clone(a.Ports)
		a.Ports[0].NodePort, b.Ports[0].NodePort = 30081, 30080
		m.SetService(a)
		m.SetService(b)
		checkConflicts(t, m.Changes(), Conflict{Match{f, nodeIP(f, 1), p, 30080}, portOf(b), portOf(a)})
	})
}
