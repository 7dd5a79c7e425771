package schedulers

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// held is the number of connections that are open to one endpoint over each transport, and more
// the number of later ones, of which nearly all must go to the other.
const held, more = 100, 20

// TestLeastConnectionsPreferTheIdleEndpoint opens connections to a Service with one endpoint,
// which stay, and adds another. Rollouts are simulated in sync/follow/leastconn.
func TestLeastConnectionsPreferTheIdleEndpoint(t *testing.T) {
	s := newScene(t, "lc", 2)
	client, one := s.lab.Pods[1], s.service
	one.Endpoints = s.servers[:1]
	s.proxy.After(func() { s.folder.Put("web", one) })
	for _, w := range daemon.Transports() {
		for range held {
			flow, err := client.Flow(w.Protocol, netip.AddrPortFrom(netip.Addr{}, client.FreshPort()), s.at(w, model.KindClusterIP))
			if err != nil {
				t.Fatal(err)
			}
			if a, err := flow.Ask(answer); err != nil || a.By != s.servers[0].Name {
				t.Fatalf("%s: %s, %v", w, a, err)
			}
		}
	}
	s.folder.Put("web", s.service)
	// Only then: each connection that is opened makes the idle endpoint less idle.
	eventually.Succeeds(t, "shares for the idle endpoint", func() error { return s.idleIsPreferred(t) })
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		by := map[string]int{}
		for range more {
			a, err := client.AskFresh(w.Protocol, netip.Addr{}, s.at(w, model.KindClusterIP), answer)
			if err != nil || a.Outcome != lab.Answered {
				t.Fatal(a, err)
			}
			by[a.By]++
		}
		if by[s.servers[1].Name] < more-4 {
			t.Errorf("answered by %v", by)
		}
	})
}

// idleIsPreferred returns an error unless each port gives the second server at least nine in ten
// new connections.
func (s *scene) idleIsPreferred(t *testing.T) error {
	var d nodestatus.Document
	if err := json.Unmarshal([]byte(daemon.Run(t, s.lab.Node.Host, "status", "-o", "json").Stdout), &d); err != nil {
		return err
	}
	for _, p := range d.Services[0].Ports {
		all, idle := 0, 0
		for _, e := range p.Endpoints {
			all += e.Share
			if e.Address == s.servers[1].Addr(model.FamilyOf(netip.MustParseAddr(e.Address))).String() {
				idle = e.Share
			}
		}
		if all == 0 || idle*10 < all*9 {
			return fmt.Errorf("port %s, %s: %d of %d", p.Name, p.Family, idle, all)
		}
	}
	return nil
}
