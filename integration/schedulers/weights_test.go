package schedulers

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// weightSets are the weights of three endpoints on node-1, and of three on node-2. Some are
// reduced to few slots, some need one map for all, some are more than that has room for;
// and endpoints of weight 0 are drained.
var weightSets = [][6]uint16{
	{1, 2, 3, 4, 5, 6},
	{10, 1, 1, 1, 1, 1},
	{100, 50, 25, 100, 50, 25},
	{1, 1, 1, 1, 1, 2},
	{7, 7, 7, 1, 1, 1},
	{60, 40, 20, 10, 20, 10},
	{201, 200, 100, 99, 50, 30},
	{1000, 999, 100, 500, 200, 300},
	{0, 3, 1, 2, 1, 0},
	{0, 0, 5, 0, 3, 42},
}

// weighted are the Services of weightedScene: a scheduler each, or affinity.
var weighted = []string{"random", "rr", "sh", "mh", "affinity"}

// weightedService returns a Service whose external addresses have Local policy.
func weightedService(scheduler string, number int, spec string) daemon.Service {
	s := daemon.Service{
		Name: fmt.Sprintf("%s-%d", scheduler, number), Number: number, Kinds: daemon.Kinds, LocalOutside: true,
		EndpointSpec: spec, Scheduler: scheduler,
	}
	if scheduler == "affinity" {
		s.Scheduler, s.Affinity = "", time.Hour
	}
	return s
}

func specOf(servers []*lab.Host, weights [6]uint16) string {
	var words []string
	for i, h := range servers {
		words = append(words, fmt.Sprintf("%s/weight=%d", h.Name, weights[i]))
	}
	return strings.Join(words, " ")
}

// shareOf returns the expected shares of the first endpoints.
func shareOf(scheduler string, servers []*lab.Host, weights []uint16, f model.Family) map[string]float64 {
	out := map[string]float64{}
	for i, w := range weights {
		if w > 0 {
			out[servers[i].Name] = float64(w)
		}
	}
	if scheduler == "mh" && len(out) > 0 {
		clear(out)
		for _, name := range weightedTableOf(servers[:len(weights)], weights, f) {
			out[name]++
		}
	}
	return out
}

// TestConnectionsFollowWeights counts the connections of each endpoint, from many clients:
// to all endpoints at the ClusterIP, and to those on the node at a load balancer
// address.
func TestConnectionsFollowWeights(t *testing.T) {
	t.Parallel()
	l, servers := daemon.NewLab(t, 3, 3)
	folder := daemon.NewFolder(t, l)
	var services []daemon.Service
	for i, weights := range weightSets {
		for k, scheduler := range weighted {
			services = append(services, weightedService(scheduler, 1+i*len(weighted)+k, specOf(servers, weights)))
		}
	}
	folder.Put("web", services...)
	daemon.Start(t, l.Node, folder)
	flows := flowsOf(300, 1)
	for i, weights := range weightSets {
		transports := daemon.Transports()
		if testing.Short() || os.Getenv("KUBE_VMAP_OWN_MACHINE") != "" { // emulated, where all would take long
			transports = transports[i%len(transports):][:1]
		}
		for _, w := range transports {
			t.Run(fmt.Sprintf("%v/%s", weights, w), func(t *testing.T) {
				for k, scheduler := range weighted {
					s := services[i*len(weighted)+k]
					all := tally(askBy(t, l, w, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), flows))
					checkShares(t, scheduler, all, shareOf(scheduler, servers, weights[:], w.Family))
					local := tally(askBy(t, l, w, s.AddrPort(l.Node, w.Family, model.KindLoadBalancerIP, 0), flows))
					checkShares(t, scheduler+", Local policy", local, shareOf(scheduler, servers, weights[:3], w.Family))
				}
			})
		}
	}
}

// checkShares checks the shares of endpoints, of which one may have all.
func checkShares(t *testing.T, name string, counts map[string]int, shares map[string]float64) {
	t.Helper()
	if len(shares) > 1 {
		t.Run(name, func(t *testing.T) { even(t, counts, shares) })
		return
	}
	for by := range counts {
		if shares[by] == 0 {
			t.Errorf("%s: %s has answered", name, by)
		}
	}
}

// places is the size of the proxy's Maglev tables.
const places = 251

// many flows are enough to compare the table.
var many = flowsOf(60, 10)

// TestMaglevChoosesTheSameOnEveryNode runs a proxy on each node, with the same
// manifests, and asks both from the same addresses and ports, at addresses that differ
// between nodes and at others.
func TestMaglevChoosesTheSameOnEveryNode(t *testing.T) {
	s := newScene(t, "mh", 10)
	daemon.Start(t, s.lab.Remote, s.folder)
	had := map[daemon.Transport][]string{}
	some := many[:len(many)/3]
	check := func(t *testing.T, w daemon.Transport, to netip.AddrPort) {
		t.Helper()
		same(t, had[w][:len(some)], askBy(t, s.lab, w, to, some))
	}
	eachInTurn(t, func(t *testing.T, w daemon.Transport) {
		had[w] = askBy(t, s.lab, w, s.at(w, model.KindClusterIP), many)
		for _, node := range []*lab.Node{s.lab.Node, s.lab.Remote} {
			check(t, w, s.service.AddrPort(node, w.Family, model.KindNodePort, 0))
		}
	})
	daemon.RouteServices(t, s.lab, s.lab.Remote)
	eachInTurn(t, func(t *testing.T, w daemon.Transport) {
		for _, k := range []model.Kind{model.KindClusterIP, model.KindExternalIP, model.KindLoadBalancerIP} {
			check(t, w, s.at(w, k))
		}
	})
	daemon.RouteServices(t, s.lab, s.lab.Node)
	s.proxy.Kill()
	daemon.Start(t, s.lab.Node, s.folder)
	eachInTurn(t, func(t *testing.T, w daemon.Transport) { check(t, w, s.at(w, model.KindClusterIP)) })
}

// same checks that every flow has the same endpoint as before.
func same(t *testing.T, had, have []string) {
	t.Helper()
	n := 0
	for i := range had {
		if had[i] != have[i] {
			n++
		}
	}
	if n > 0 {
		t.Errorf("%d of %d flows have another endpoint", n, len(had))
	}
}

// weightedTableOf returns Maglev's table with the names of the endpoints, which have these
// weights; zero means that an endpoint is not in the table.
func weightedTableOf(hosts []*lab.Host, weights []uint16, f model.Family) []string {
	var endpoints []netip.AddrPort
	name, weight := map[netip.AddrPort]string{}, map[netip.AddrPort]uint16{}
	for i, h := range hosts {
		if weights[i] > 0 {
			e := h.AddrPort(f, daemon.TargetPort)
			endpoints = append(endpoints, e)
			name[e], weight[e] = h.Name, weights[i]
		}
	}
	slices.SortFunc(endpoints, netip.AddrPort.Compare)
	var sorted []uint16
	for _, e := range endpoints {
		sorted = append(sorted, weight[e])
	}
	table := make([]string, places)
	for i, e := range model.MaglevTable(endpoints, sorted, places) {
		table[i] = name[e]
	}
	return table
}

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
