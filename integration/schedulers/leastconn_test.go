package schedulers

import (
	"fmt"
	"net/netip"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// held is the number of connections that are open to one endpoint over each transport, and more
// the number of later ones, of which nearly all must go to the other.
const held, more = 100, 20

// TestLeastConnectionsPreferTheIdleEndpoint opens connections to a Service with one endpoint,
// which stay, and adds another. Rollouts are simulated in sync/leastconn.
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
	applied := s.proxy.CountMessages("applied")
	s.folder.Put("web", s.service)
	s.proxy.AwaitMessages(applied+2, "applied") // the endpoint, and shares
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		eventually.Succeeds(t, "nearly all connections to the idle endpoint", func() error {
			by := map[string]int{}
			for range more {
				a, err := client.AskFresh(w.Protocol, netip.Addr{}, s.at(w, model.KindClusterIP), answer)
				if err != nil || a.Outcome != lab.Answered {
					return fmt.Errorf("%s, %w", a, err)
				}
				by[a.By]++
			}
			if by[s.servers[1].Name] < more-2 {
				return fmt.Errorf("answered by %v", by)
			}
			return nil
		})
	})
}
