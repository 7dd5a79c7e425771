package schedulers

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// A drainScene has an endpoint on each node, the Services of every scheduler and one with
// affinity, and flows to them.
type drainScene struct {
	lab      *lab.Lab
	servers  []*lab.Host
	folder   *daemon.Folder
	services []daemon.Service
	flows    map[daemon.Transport][]establishedFlow
}

// An establishedFlow is a flow with the endpoint that it has.
type establishedFlow struct {
	*lab.Flow
	by string
}

// put gives the endpoints weights, such as "/weight=0".
func (s *drainScene) put(here, there string) {
	s.services = nil
	for k, scheduler := range weighted {
		s.services = append(s.services, weightedService(scheduler, 1+k, s.servers[0].Name+here+" "+s.servers[1].Name+there))
	}
	s.folder.Put("web", s.services...)
}

func (s *drainScene) eachService(t *testing.T, test func(*testing.T, daemon.Transport, daemon.Service)) {
	t.Helper()
	eachInTurn(t, func(t *testing.T, w daemon.Transport) {
		for _, service := range s.services {
			test(t, w, service)
		}
	})
}

// connect opens a connection of a client outside, and waits for an answer.
func (s *drainScene) connect(t *testing.T, w daemon.Transport, client int, service daemon.Service, k model.Kind) (*lab.Flow, lab.Answer) {
	t.Helper()
	return s.connectWithin(t, answer, w, client, service, k)
}

// connectWithin is connect for an answer that may not come.
func (s *drainScene) connectWithin(
	t *testing.T, wait time.Duration, w daemon.Transport, client int, service daemon.Service, k model.Kind,
) (*lab.Flow, lab.Answer) {
	t.Helper()
	from := netip.AddrPortFrom(daemon.ClientAddr(w.Family, client), s.lab.Outside.FreshPort())
	flow, err := s.lab.Outside.Flow(w.Protocol, from, service.AddrPort(s.lab.Node, w.Family, k, 0))
	if err != nil {
		t.Fatal(err)
	}
	a, err := flow.Ask(wait)
	if err != nil {
		t.Fatal(err)
	}
	return flow, a
}

// checkFlows asks over all flows again.
func (s *drainScene) checkFlows(t *testing.T) {
	t.Helper()
	eachInTurn(t, func(t *testing.T, w daemon.Transport) {
		for _, f := range s.flows[w] {
			if a, err := f.Ask(answer); err != nil || a.By != f.by {
				t.Errorf("a flow of %s: %s, %v", f.by, a, err)
			}
		}
	})
}

// TestDrainedEndpointKeepsItsFlows drains one of two endpoints and then both, while flows
// to both of them are established. Clients that are remembered move to the other endpoint
// with their next connection.
func TestDrainedEndpointKeepsItsFlows(t *testing.T) {
	t.Parallel()
	const clients = 24
	s := &drainScene{flows: map[daemon.Transport][]establishedFlow{}}
	s.lab, s.servers = daemon.NewLab(t, 1, 1)
	s.folder = daemon.NewFolder(t, s.lab)
	s.put("", "")
	proxy := daemon.Start(t, s.lab.Node, s.folder)
	s.eachService(t, func(t *testing.T, w daemon.Transport, service daemon.Service) {
		by := map[string]int{}
		for client := range clients {
			flow, a := s.connect(t, w, client, service, model.KindClusterIP)
			s.flows[w], by[a.By] = append(s.flows[w], establishedFlow{flow, a.By}), by[a.By]+1
		}
		if len(by) != 2 {
			t.Fatalf("%s: not both endpoints have flows: %v", service.Name, by)
		}
	})

	proxy.After(func() { s.put("/weight=0", "") })
	s.eachService(t, func(t *testing.T, w daemon.Transport, service daemon.Service) {
		for client := range clients {
			if _, a := s.connect(t, w, client, service, model.KindClusterIP); a.By != s.servers[1].Name {
				t.Errorf("%s: a new connection: %s", service.Name, a)
			}
		}
	})
	eachInTurn(t, func(t *testing.T, w daemon.Transport) {
		if _, a := s.connectWithin(t, time.Second, w, 0, s.services[0], model.KindLoadBalancerIP); a.Outcome != lab.TimedOut {
			t.Errorf("with the only endpoint of the node drained, under Local policy: %s", a)
		}
	})
	s.checkFlows(t)

	proxy.After(func() { s.put("/weight=0", "/weight=0") })
	s.eachService(t, func(t *testing.T, w daemon.Transport, service daemon.Service) {
		for _, k := range []model.Kind{model.KindClusterIP, model.KindLoadBalancerIP} {
			if _, a := s.connect(t, w, 0, service, k); a.Outcome != lab.Refused {
				t.Errorf("%s: at %s, with all drained: %s", service.Name, k, a)
			}
		}
	})
	s.checkFlows(t)

	proxy.After(func() { s.put("", "/weight=3") })
	s.eachService(t, func(t *testing.T, w daemon.Transport, service daemon.Service) {
		if _, a := s.connect(t, w, 0, service, model.KindClusterIP); a.Outcome != lab.Answered {
			t.Errorf("%s: with both again: %s", service.Name, a)
		}
	})
	s.checkFlows(t)
}
