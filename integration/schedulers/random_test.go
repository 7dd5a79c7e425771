package schedulers

import (
	"net/netip"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// TestRandomIsEven asks over many flows.
func TestRandomIsEven(t *testing.T) {
	s := newScene(t, "random", 5)
	eachInTurn(t, func(t *testing.T, w daemon.Transport) {
		even(t, tally(askBy(t, s.lab, w, s.at(w, model.KindClusterIP), flowsOf(80, 10))), equalWeights(s.servers))
	})
}

// TestRoundRobinTakesTurns asks only one Service, one question after the other:
// concurrent questions would take turns of each other.
func TestRoundRobinTakesTurns(t *testing.T) {
	s := newScene(t, "rr", 5)
	client := s.lab.Pods[len(s.lab.Pods)-1]
	eachInTurn(t, func(t *testing.T, w daemon.Transport) {
		for _, k := range daemon.Kinds {
			var by []string
			for n := range uint16(8 * len(s.servers)) {
				name, err := ask(client.Host, w, netip.AddrPortFrom(netip.Addr{}, firstPort+n), s.at(w, k))
				if err != nil {
					t.Fatal(err)
				}
				by = append(by, name)
			}
			for i, name := range by[len(s.servers):] {
				if name != by[i] {
					t.Fatalf("%s: not in turn: %v", k, by)
				}
			}
			if n := len(tally(by)); n != len(s.servers) {
				t.Errorf("%s: %d of %d endpoints answered: %v", k, n, len(s.servers), by)
			}
			forget(t, s.lab)
		}
	})
}

// TestSourceHashGivesAClientOneEndpoint asks at all of the Service's addresses, from
// several ports.
func TestSourceHashGivesAClientOneEndpoint(t *testing.T) {
	const clients = 300
	s := newScene(t, "sh", 5)
	had := map[daemon.Transport][]string{}
	few := flowsOf(clients/10, 3)
	check := func(t *testing.T, w daemon.Transport, k model.Kind) {
		t.Helper()
		var firsts []string
		for _, f := range few {
			firsts = append(firsts, had[w][f.client])
		}
		same(t, firsts, askBy(t, s.lab, w, s.at(w, k), few))
	}
	eachInTurn(t, func(t *testing.T, w daemon.Transport) {
		had[w] = askBy(t, s.lab, w, s.at(w, model.KindClusterIP), flowsOf(clients, 1))
		even(t, tally(had[w]), equalWeights(s.servers))
		for _, k := range daemon.Kinds {
			check(t, w, k)
		}
	})
	s.proxy.Kill()
	daemon.Start(t, s.lab.Node, s.folder)
	eachInTurn(t, func(t *testing.T, w daemon.Transport) { check(t, w, model.KindClusterIP) })
}
