package schedulers

import (
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

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
