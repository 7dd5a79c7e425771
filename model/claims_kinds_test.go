package model

import (
	"net/netip"
	"slices"
	"testing"
)

// competitor returns a Service whose ClusterIP and age follow from its name: a has
// ClusterIP 20 and is the oldest, b has 21, and so on.
func competitor(name string, f Family, p Protocol, changes ...func(*Service)) Service {
	s := webService(p, f)
	k := int(name[0] - 'a')
	s.Name.Name, s.Created, s.ClusterIPs[0] = name, int64(k), clusterIP(f, 20+k)
	return changed(s, changes...)
}

// What competitors claim in addition to their ClusterIP, or instead.
func withExternalIP(a netip.Addr) func(*Service) {
	return func(s *Service) { s.ExternalIPs = append(s.ExternalIPs, a) }
}

func withLoadBalancerIP(a netip.Addr) func(*Service) {
	return func(s *Service) { s.LoadBalancerIPs = append(s.LoadBalancerIPs, a) }
}

func withNodePort(port uint16) func(*Service) {
	return func(s *Service) { s.Ports[0].NodePort = port }
}

func withClusterIP(a netip.Addr) func(*Service) {
	return func(s *Service) { s.ClusterIPs[0] = a }
}

// otherProtocol maps each protocol to another one.
var otherProtocol = map[Protocol]Protocol{TCP: UDP, UDP: SCTP, SCTP: TCP}

// owners lists the winners of all matches, sorted by Match.
func owners(m *ServiceMap) []string {
	var out []string
	for _, fe := range m.Frontends() {
		out = append(out, fe.Service.Name+" "+fe.Kind.String()+" "+fe.Match.String())
	}
	return out
}

// ownerLine returns a line of owners.
func ownerLine(name string, k Kind, m Match) string {
	return name + " " + k.String() + " " + m.String()
}

func checkOwners(t *testing.T, m *ServiceMap, want ...string) {
	t.Helper()
	if got := owners(m); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", lines(got), lines(want))
	}
}

// set returns a map with the Services. Changes has been called.
func set(services ...Service) *ServiceMap {
	m := NewServiceMap(Options{}, thisNode)
	for _, s := range services {
		m.SetService(s)
	}
	m.Changes()
	return m
}

func TestClusterIPWinsOverOlderExternalAddress(t *testing.T) {
	for what, claim := range map[string]func(netip.Addr) func(*Service){"external": withExternalIP, "load balancer": withLoadBalancerIP} {
		for _, name := range []string{"a", "c"} { // older and younger than the owner
			t.Run(what+" IP of "+name, func(t *testing.T) {
				every(t, func(t *testing.T, f Family, p Protocol) {
					owner := competitor("b", f, p)
					match := Match{owner.ClusterIPs[0], 80, f, p}
					claimer := competitor(name, f, p, claim(owner.ClusterIPs[0]), withNodePort(30080))
					lost := Conflict{match, portOf(owner), portOf(claimer)}

					together := NewServiceMap(Options{}, thisNode)
					together.SetService(claimer)
					together.SetService(owner)
					checkConflicts(t, together.Changes(), lost)

					// The claimer comes first, and loses the address.
					m := set(claimer)
					m.SetService(owner)
					got := m.Changes()
					checkConflicts(t, got, lost)
					checkChanges(t, got, []Match{match}, nil)
					if !slices.Equal(owners(m), owners(together)) || got.Set[0].Kind != KindClusterIP || m.ConflictCount() != 1 {
						t.Errorf("one after the other\n%s\ntogether\n%s", lines(owners(m)), lines(owners(together)))
					}

					// It keeps its other addresses, and gets this one when no other Service has it.
					m.DeleteService(owner.Name)
					got = m.Changes()
					checkChanges(t, got, []Match{match}, nil)
					if got.Set[0].Kind == KindClusterIP || got.Set[0].Service != portOf(claimer) || m.ConflictCount() != 0 {
						t.Errorf("got\n%s", frontendLines(got.Set))
					}
				})
			})
		}
	}
}

// The author of a Service writes its external IPs. An early one must not get the traffic
// of a load balancer that is assigned the address later.
func TestLoadBalancerIPWinsOverOlderExternalIP(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		shared := externalIP(f, 1)
		older, younger := competitor("a", f, p, withExternalIP(shared)), competitor("b", f, p, withLoadBalancerIP(shared))
		match := Match{shared, 80, f, p}
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(older)
		m.Changes()
		m.SetService(younger)
		got := m.Changes()
		checkConflicts(t, got, Conflict{match, portOf(younger), portOf(older)})
		checkChanges(t, got, []Match{{younger.ClusterIPs[0], 80, f, p}, match}, nil)
		m.DeleteService(younger.Name)
		if got = m.Changes(); len(got.Set) != 1 || got.Set[0].Service != portOf(older) {
			t.Errorf("when it goes, got\n%s", frontendLines(got.Set))
		}
	})
}

func TestOlderServiceWinsSharedAddress(t *testing.T) {
	shared := func(f Family) netip.Addr { return externalIP(f, 1) }
	tests := map[string]func(netip.Addr) func(*Service){"load balancer IP": withLoadBalancerIP, "external IP": withExternalIP}
	for what, first := range tests {
		for other, second := range tests {
			if what == "external IP" && other != what {
				continue // see TestLoadBalancerIPWinsOverOlderExternalIP
			}
			t.Run(what+" and "+other, func(t *testing.T) {
				every(t, func(t *testing.T, f Family, p Protocol) {
					a, b := competitor("a", f, p, first(shared(f))), competitor("b", f, p, second(shared(f)))
					match := Match{shared(f), 80, f, p}
					m := NewServiceMap(Options{}, thisNode)
					m.SetService(b)
					checkConflicts(t, m.Changes())
					m.SetService(a)
					got := m.Changes()
					checkConflicts(t, got, Conflict{match, portOf(a), portOf(b)})
					checkChanges(t, got, []Match{{a.ClusterIPs[0], 80, f, p}, match}, nil)

					// The loser's own ClusterIP does not change.
					m.DeleteService(a.Name)
					got = m.Changes()
					checkConflicts(t, got)
					checkChanges(t, got, []Match{match}, []Match{{a.ClusterIPs[0], 80, f, p}})
					if got.Set[0].Service != portOf(b) || got.Set[0].Pool.Key.Addr != b.ClusterIPs[0] {
						t.Errorf("got\n%s", frontendLines(got.Set))
					}
				})
			})
		}
	}
}

func TestPortWithoutItsClusterIPHasNoOtherAddress(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		ip, external := clusterIP(f, 10), externalIP(f, 1)
		a := competitor("a", f, p, withClusterIP(ip))
		b := competitor("b", f, p, withClusterIP(ip), withNodePort(30080), withExternalIP(external), withLoadBalancerIP(externalIP(f, 2)))
		c := competitor("c", f, p, withExternalIP(external), withNodePort(30081))
		var (
			disputed = Match{ip, 80, f, p}
			ofNode   = Match{Family: f, Protocol: p, Port: 30080}
			shared   = Match{external, 80, f, p}
			balanced = Match{externalIP(f, 2), 80, f, p}
			ofC      = []string{
				ownerLine("c", KindNodePort, Match{Family: f, Protocol: p, Port: 30081}),
				ownerLine("c", KindClusterIP, Match{c.ClusterIPs[0], 80, f, p}),
			}
		)
		m := NewServiceMap(Options{}, thisNode)
		for _, s := range []Service{c, b, a} {
			m.SetService(s)
		}
		// That b has no external IP either is no further conflict: it does not claim it.
		checkConflicts(t, m.Changes(), Conflict{disputed, portOf(a), portOf(b)})
		checkOwners(t, m, ofC[0], ownerLine("a", KindClusterIP, disputed), ofC[1], ownerLine("c", KindExternalIP, shared))

		// The loser's endpoints do not matter.
		slice := webSlice(f, p, ready(1))
		slice.Service = b.Name
		m.SetSlice(slice)
		checkNothing(t, m.Changes())

		// The winner goes: the next one gets everything, even what a younger one had.
		m.DeleteService(a.Name)
		got := m.Changes()
		checkChanges(t, got, []Match{ofNode, disputed, shared, balanced}, nil)
		checkConflicts(t, got, Conflict{shared, portOf(b), portOf(c)})
		for _, fe := range got.Set {
			if fe.Service != portOf(b) || fe.Verdict != VerdictBalance || fe.Pool != got.pool(disputed) {
				t.Errorf("got\n%s", frontendLines([]Frontend{fe}))
			}
		}

		// The winner comes back.
		m.SetService(a)
		got = m.Changes()
		checkChanges(t, got, []Match{disputed, shared}, []Match{ofNode, balanced})
		checkConflicts(t, got, Conflict{disputed, portOf(a), portOf(b)})
		checkOwners(t, m, ofC[0], ownerLine("a", KindClusterIP, disputed), ofC[1], ownerLine("c", KindExternalIP, shared))

		for _, s := range []Service{a, b, c} {
			m.DeleteService(s.Name)
		}
		m.DeleteSlice(slice.Name)
		m.Changes()
		checkEmpty(t, m)
	})
}

// Only the port that lost is not programmed, and only in that family.
func TestLostClusterIPAffectsOnePortInOneFamily(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		other := IPv4 + IPv6 - f
		a := competitor("a", f, p, withClusterIP(clusterIP(f, 10)))
		b := webService(p, Families[:]...)
		b.Name.Name, b.Created = "b", 1
		b.Ports = []ServicePort{{"http", p, 80, 30080}, {"admin", p, 81, 30081}}
		m := set(a, b)
		want := map[Family][]string{
			f: {
				ownerLine("b", KindNodePort, Match{Family: f, Protocol: p, Port: 30081}),
				ownerLine("a", KindClusterIP, Match{clusterIP(f, 10), 80, f, p}),
				ownerLine("b", KindClusterIP, Match{clusterIP(f, 10), 81, f, p}),
			},
			other: {
				ownerLine("b", KindNodePort, Match{Family: other, Protocol: p, Port: 30080}),
				ownerLine("b", KindNodePort, Match{Family: other, Protocol: p, Port: 30081}),
				ownerLine("b", KindClusterIP, Match{clusterIP(other, 10), 80, other, p}),
				ownerLine("b", KindClusterIP, Match{clusterIP(other, 10), 81, other, p}),
			},
		}
		checkOwners(t, m, slices.Concat(want[IPv4], want[IPv6])...)
	})
}

func TestAddressListedTwiceIsLoadBalancerIP(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		ip := externalIP(f, 1)
		match := Match{ip, 80, f, p}
		ranges := func(s *Service) { s.SourceRanges = []netip.Prefix{sourceRange(f, 128, 25)} }
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(competitor("a", f, p, withExternalIP(ip), withLoadBalancerIP(ip), withExternalIP(ip), ranges))
		got := m.Changes()
		checkConflicts(t, got)
		checkChanges(t, got, []Match{{clusterIP(f, 20), 80, f, p}, match}, nil)
		if fe := got.Set[1]; fe.Kind != KindLoadBalancerIP || !fe.Restricted {
			t.Errorf("got\n%s", frontendLines(got.Set[1:]))
		}
		m.SetService(competitor("a", f, p, withExternalIP(ip), ranges))
		got = m.Changes()
		checkChanges(t, got, []Match{match}, nil)
		if fe := got.Set[0]; fe.Kind != KindExternalIP || fe.Restricted {
			t.Errorf("got\n%s", frontendLines(got.Set))
		}
		m.SetService(competitor("a", f, p))
		checkChanges(t, m.Changes(), nil, []Match{match})
	})
}

func TestSecondPortWithSameNumberHasNoNodePort(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		s := competitor("a", f, p)
		s.Ports = []ServicePort{{"b", p, 80, 30080}, {"a", p, 80, 30081}}
		name := func(port string) ServicePortName { return ServicePortName{s.Name, port, p} }
		ofNode := func(port uint16) Match { return Match{Family: f, Protocol: p, Port: port} }
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(s)
		got := m.Changes()
		key := Match{clusterIP(f, 20), 80, f, p}
		checkConflicts(t, got, Conflict{key, name("b"), name("a")})
		checkChanges(t, got, []Match{ofNode(30080), key}, nil)
		m.SetService(changed(s, func(s *Service) { s.Ports = s.Ports[1:] }))
		checkChanges(t, m.Changes(), []Match{ofNode(30081), key}, []Match{ofNode(30080)})
	})
}

func TestServicesThatClaimEachOthersClusterIPKeepTheirOwn(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		one, two := clusterIP(f, 20), clusterIP(f, 21)
		a, b := competitor("a", f, p, withExternalIP(two)), competitor("b", f, p, withExternalIP(one))
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(a)
		m.SetService(b)
		checkConflicts(t, m.Changes(),
			Conflict{Match{one, 80, f, p}, portOf(a), portOf(b)}, Conflict{Match{two, 80, f, p}, portOf(b), portOf(a)})
		checkOwners(t, m, ownerLine("a", KindClusterIP, Match{one, 80, f, p}), ownerLine("b", KindClusterIP, Match{two, 80, f, p}))
	})
}

// TestNodePortWinsOnNodeAddresses: an older Service has an address of the node as its
// external IP. The address and port are those of the node port while the node has both.
func TestNodePortWinsOnNodeAddresses(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{}, thisNode)
		claimer, owner := competitor("a", f, p), competitor("b", f, p)
		claimer.Created, owner.Created = 1, 2
		claimer.ExternalIPs, claimer.Ports[0].Port = []netip.Addr{nodeIP(f, 1)}, 30080
		owner.Ports[0].NodePort = 30080
		match := Match{nodeIP(f, 1), 30080, f, p}
		served := func() bool {
			return slices.ContainsFunc(m.Frontends(), func(fe Frontend) bool { return fe.Match == match })
		}
		m.SetService(claimer)
		m.SetService(owner)
		checkConflicts(t, m.Changes())
		if !served() {
			t.Error("an address without node ports is not served")
		}
		m.SetNodeAddrs([]netip.Addr{nodeIP(f, 1)})
		checkConflicts(t, m.Changes(), Conflict{match, portOf(owner), portOf(claimer)})
		if served() || m.ConflictCount() != 1 {
			t.Errorf("external IP wins over the node port: %t, conflicts %d", served(), m.ConflictCount())
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

// TestOwnNodePortThatMovesToAnotherServiceIsNewConflict: at an address that serves
// node ports, a Service does not conflict with its own node port, but with that of
// another one.
func TestOwnNodePortThatMovesToAnotherServiceIsNewConflict(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{}, thisNode)
		m.SetNodeAddrs([]netip.Addr{nodeIP(f, 1)})
		a, b := competitor("a", f, p), competitor("b", f, p)
		a.ExternalIPs, a.Ports[0].Port, a.Ports[0].NodePort = []netip.Addr{nodeIP(f, 1)}, 30080, 30080
		m.SetService(a)
		m.SetService(b)
		checkConflicts(t, m.Changes())
		a.Ports = slices.Clone(a.Ports)
		a.Ports[0].NodePort, b.Ports[0].NodePort = 30081, 30080
		m.SetService(a)
		m.SetService(b)
		checkConflicts(t, m.Changes(), Conflict{Match{nodeIP(f, 1), 30080, f, p}, portOf(b), portOf(a)})
	})
}
