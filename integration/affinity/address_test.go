package affinity

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// A client is a host and one of its addresses.
type client struct {
	host *lab.Host
	addr netip.Addr
}

// allClients returns clients of all kinds: pods with and without endpoints, the node, and
// some outside.
func allClients(l *lab.Lab, f model.Family) []client {
	all := []client{{l.Node.Host, netip.Addr{}}, {l.Outside, netip.Addr{}}}
	for _, pod := range l.Pods {
		all = append(all, client{pod.Host, netip.Addr{}})
	}
	for n := range 10 {
		all = append(all, client{l.Outside, daemon.ClientAddr(f, n)})
	}
	return all
}

// TestAffinityIsPerClientAndServicePort connects to all addresses in random order.
func TestAffinityIsPerClientAndServicePort(t *testing.T) {
	const ports = 2
	l, servers := daemon.NewLab(t, 4, 2)
	for _, h := range servers {
		if err := h.ServeAll(daemon.TargetPort + 1); err != nil {
			t.Fatal(err)
		}
	}
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Affinity: long, Ports: ports, Kinds: daemon.Kinds}
	other := s
	other.Name, other.Number = "other", 2
	f.Put("web", s, other)
	daemon.Start(t, l.Node, f)
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		var found [][]string // by client: the endpoint of port 0, port 1, and the other Service's ports
		for _, c := range allClients(l, w.Family) {
			var mine []string
			for _, s := range []daemon.Service{s, other} {
				for n := range ports {
					mine = append(mine, onlyEndpoint(t, l, c, w, s, n))
				}
			}
			found = append(found, mine)
		}
		if slices.IndexFunc(found, func(mine []string) bool { return mine[0] != mine[1] }) < 0 {
			t.Errorf("all clients have the same endpoint at both ports: %v", found)
		}
		if slices.IndexFunc(found, func(mine []string) bool { return mine[0] != mine[ports] }) < 0 {
			t.Errorf("all clients have the same endpoint of both Services: %v", found)
		}
		if slices.IndexFunc(found, func(mine []string) bool { return mine[0] != found[0][0] }) < 0 {
			t.Errorf("all clients have the same endpoint: %v", found)
		}
	})
}

// onlyEndpoint connects twice to each address of a Service's n-th port, and returns the
// endpoint of all connections.
func onlyEndpoint(t *testing.T, l *lab.Lab, c client, w daemon.Transport, s daemon.Service, n int) (by string) {
	t.Helper()
	kinds := slices.Concat(daemon.Kinds, daemon.Kinds)
	rand.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for i, k := range kinds {
		got, err := ask(c.host, c.addr, w, s.AddrPort(l.Node, w.Family, k, n))
		if err != nil {
			t.Fatalf("%s: %v", k, err)
		}
		if by == "" {
			by = got
		}
		if got != by {
			t.Fatalf("%s %s: endpoint %s, but at the %s %s (order %v)", c.host, c.addr, by, k, got, kinds[:i+1])
		}
	}
	return by
}

// TestTrafficPolicyOverridesAffinity connects clients to an address with all endpoints, and
// then to another whose traffic policy is Local.
func TestTrafficPolicyOverridesAffinity(t *testing.T) {
	t.Parallel()
	l, servers := daemon.NewLab(t, 3, 4)
	local := names(servers[:3])
	f := daemon.NewFolder(t, l)
	outside := daemon.Service{
		Name: "outside", Number: 1, Endpoints: servers, Affinity: long, Kinds: daemon.Kinds, LocalOutside: true,
	}
	inside := daemon.Service{
		Name: "inside", Number: 2, Endpoints: servers, Affinity: long, Kinds: daemon.Kinds, LocalInside: true,
	}
	f.Put("web", outside, inside)
	daemon.Start(t, l.Node, f)
	clients := crowd{0, 40}
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for _, c := range []struct {
			s           daemon.Service
			first, then model.Kind
		}{
			{outside, model.KindClusterIP, model.KindNodePort},
			{outside, model.KindClusterIP, model.KindLoadBalancerIP},
			{outside, model.KindClusterIP, model.KindExternalIP},
			{inside, model.KindNodePort, model.KindClusterIP},
			{inside, model.KindLoadBalancerIP, model.KindClusterIP},
			{inside, model.KindExternalIP, model.KindClusterIP},
		} {
			to := c.s.AddrPort(l.Node, w.Family, c.first, 0)
			if slices.IndexFunc(survey(t, l, w, to, clients), func(by string) bool { return !local[by] }) < 0 {
				t.Errorf("%s, %s: %d clients got endpoints on the node only", c.s.Name, c.first, clients.count)
			}
			to = c.s.AddrPort(l.Node, w.Family, c.then, 0)
			got := survey(t, l, w, to, clients)
			if i := slices.IndexFunc(got, func(by string) bool { return !local[by] }); i >= 0 {
				t.Errorf("%s, %s after %s: endpoint %s, which is not on the node", c.s.Name, c.then, c.first, got[i])
			}
			keep(t, got, survey(t, l, w, to, clients))
		}
		// For pods and the node, the proxy replaces the load balancer.
		for _, c := range allClients(l, w.Family)[:2+len(l.Pods)] {
			if c.host != l.Outside {
				onlyEndpoint(t, l, c, w, outside, 0)
			}
		}
	})
}
