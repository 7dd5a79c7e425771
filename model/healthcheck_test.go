package model

import (
	"slices"
	"testing"
)

const healthPort = 31000

// localService returns webAllKinds with a Local external policy and a health check
// port.
func localService(p Protocol, families ...Family) Service {
	s := webAllKinds(p, families...)
	s.ExternalPolicy, s.HealthCheckNodePort = PolicyLocal, healthPort
	return s
}

// local returns n endpoints in one family and none in the other.
func local(f Family, n int) (out [len(Families)]int) {
	out[f] = n
	return out
}

func checkHealth(t *testing.T, got Changes, want ...HealthCheck) {
	t.Helper()
	if !slices.Equal(got.HealthChecks, want) {
		t.Errorf("health checks: got\n%s\nwant\n%s", lines(got.HealthChecks), lines(want))
	}
}

func TestHealthCheckCountsReadyLocalAddresses(t *testing.T) {
	twoPorts := func(s EndpointSlice) EndpointSlice {
		s.Ports = append(s.Ports, EndpointPort{"admin", TCP, 9000})
		return s
	}
	named := func(name string, s EndpointSlice) EndpointSlice {
		s.Name.Name = name
		return s
	}
	tests := map[string]struct {
		slices func(Family, Protocol) []EndpointSlice
		want   int
	}{
		"none": {slices: func(Family, Protocol) []EndpointSlice { return nil }},
		"one":  {func(f Family, p Protocol) []EndpointSlice { return []EndpointSlice{webSlice(f, p, ready(1).on(here))} }, 1},
		"none of another or an unknown node": {
			slices: func(f Family, p Protocol) []EndpointSlice {
				return []EndpointSlice{webSlice(f, p, ready(1).on(there), ready(2))}
			},
		},
		"none that is not ready, and none that terminates although it still serves": {
			func(f Family, p Protocol) []EndpointSlice {
				return []EndpointSlice{webSlice(f, p, notReady(1).on(here), servingTerminating(2).on(here), terminating(3).on(here), ready(4).on(here))}
			}, 1,
		},
		"not even if all terminate": {
			slices: func(f Family, p Protocol) []EndpointSlice {
				return []EndpointSlice{webSlice(f, p, servingTerminating(2).on(here))}
			},
		},
		"whatever the hints": {
			func(f Family, p Protocol) []EndpointSlice {
				return []EndpointSlice{webSlice(f, p, ready(1).on(here).zones(zoneB), ready(2).on(there).zones(zoneA))}
			}, 1,
		},
		"once for several ports": {
			func(f Family, p Protocol) []EndpointSlice {
				return []EndpointSlice{twoPorts(webSlice(f, p, ready(1).on(here), ready(2).on(here)))}
			}, 2,
		},
		"once for several slices": {
			func(f Family, p Protocol) []EndpointSlice {
				other := named("other", webSlice(f, p, ready(1).on(here), ready(3).on(here)))
				other.Ports[0] = EndpointPort{"admin", p, 9000}
				return []EndpointSlice{webSlice(f, p, ready(1).on(here), ready(2).on(here)), other}
			}, 3,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			every(t, func(t *testing.T, f Family, p Protocol) {
				m := NewServiceMap(Options{}, thisNode)
				m.SetService(localService(p, Families[:]...))
				for _, s := range test.slices(f, p) {
					m.SetSlice(s)
				}
				checkHealth(t, m.Changes(), HealthCheck{Service: web, Port: healthPort, Local: local(f, test.want)})
				checkNothing(t, m.Changes())
			})
		})
	}
}

func TestHealthCheckIsReportedWhenItChanges(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{}, thisNode)
		service, slice := localService(p, f), webSlice(f, p, ready(1).on(here))
		elsewhere := webSlice(f, p, ready(1).on(there))
		otherPort := changed(service, func(s *Service) { s.HealthCheckNodePort++ })
		noPort := changed(service, func(s *Service) { s.HealthCheckNodePort = 0 })
		check := func(port uint16, n int) []HealthCheck {
			return []HealthCheck{{Service: web, Port: port, Local: [...]int{n, n}}}
		}
		gone := []HealthCheck{{Service: web}}
		steps := []struct {
			what string
			do   func()
			want []HealthCheck
		}{
			{"a slice alone", func() { m.SetSlice(slice) }, nil},
			{"a Service without a port", func() { m.SetService(noPort) }, nil},
			{"the port", func() { m.SetService(service) }, check(healthPort, 1)},
			{"the same again", func() { m.SetService(service); m.SetSlice(slice) }, nil},
			{"something else", func() { m.SetService(changed(service, withNodePort(30090))) }, nil},
			{"another port", func() { m.SetService(otherPort) }, check(healthPort+1, 1)},
			{"one moves away", func() { m.SetSlice(elsewhere) }, check(healthPort+1, 0)},
			{"and back, unseen", func() { m.SetSlice(slice); m.SetSlice(elsewhere) }, nil},
			{"the node is that one", func() { m.SetNode(Node{Name: there}) }, check(healthPort+1, 1)},
			{"the node has no name", func() { m.SetNode(Node{}) }, check(healthPort+1, 0)},
			{"no port", func() { m.SetService(noPort) }, gone},
			{"no port, still", func() { m.SetSlice(slice) }, nil},
			{"the port again", func() { m.SetNode(thisNode); m.SetService(service) }, check(healthPort, 1)},
			{"no slice", func() { m.DeleteSlice(slice.Name) }, check(healthPort, 0)},
			{"no Service", func() { m.DeleteService(web) }, gone},
			{"no Service, still", func() { m.DeleteService(web) }, nil},
			{"everything together", func() { m.SetService(service); m.SetSlice(slice) }, check(healthPort, 1)},
			{"away and back", func() { m.DeleteService(web); m.SetService(service) }, nil},
			{"away and back with another port", func() { m.DeleteService(web); m.SetService(otherPort) }, check(healthPort+1, 1)},
			{"away, slices stay", func() { m.DeleteService(web) }, gone},
		}
		for _, step := range steps {
			step.do()
			if got := m.Changes().HealthChecks; !slices.Equal(got, step.want) {
				t.Errorf("%s: got %v, want %v", step.what, got, step.want)
			}
		}
		m.DeleteSlice(slice.Name)
		m.Changes()
		checkEmpty(t, m)
	})
}

func TestHealthCheckCountsEachFamily(t *testing.T) {
	for _, p := range Protocols {
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(localService(p, Families[:]...))
		m.SetSlice(webSlice(IPv4, p, ready(1).on(here)))
		m.SetSlice(webSlice(IPv6, p, ready(1).on(here), ready(2).on(here)))
		checkHealth(t, m.Changes(), HealthCheck{Service: web, Port: healthPort, Local: [...]int{IPv4: 1, IPv6: 2}})
	}
}

func TestHealthCheckOfOneFamilyHasItsCountInBoth(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{}, thisNode)
		m.SetService(localService(p, f))
		m.SetSlice(webSlice(f, p, ready(1).on(here), ready(2).on(here), ready(3).on(there)))
		checkHealth(t, m.Changes(), HealthCheck{Service: web, Port: healthPort, Local: [...]int{2, 2}})
	})
}

// A Service that lost an address still has a health check: load balancers ask for the
// Service and not for the address.
func TestHealthChecksAreSortedAndIgnoreConflicts(t *testing.T) {
	m := NewServiceMap(Options{}, thisNode)
	var want []HealthCheck
	for i, name := range []ServiceName{{"a", "b"}, {"a", "c"}, {"a-b", "a"}, {"b", "a"}} {
		want = append(want, HealthCheck{Service: name, Port: healthPort + uint16(i)})
	}
	for _, k := range []int{2, 0, 3, 1} {
		s := localService(TCP, IPv4)
		s.Name, s.HealthCheckNodePort = want[k].Service, want[k].Port
		m.SetService(s)
	}
	got := m.Changes()
	checkHealth(t, got, want...)
	if len(got.Conflicts) == 0 {
		t.Error("no conflict")
	}
}
