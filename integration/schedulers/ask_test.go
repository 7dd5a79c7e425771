package schedulers

import (
	"fmt"
	"math"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// answer is how long an answer may take on a busy machine.
	answer = 5 * time.Second
	// workers ask at the same time, for one way.
	workers = 4
)

// flow is who asks: a client of the crowd, and its port.
type flow struct {
	client int
	port   uint16
}

// firstPort is where the ports that flows have begin.
const firstPort = 21000

// flowsOf are flows of as many clients as given, each of as many ports.
func flowsOf(clients, ports int) []flow {
	var all []flow
	for c := range clients {
		for p := range ports {
			all = append(all, flow{c, firstPort + uint16(p)})
		}
	}
	return all
}

// askBy asks once by every flow and returns who answered each. Nobody remembers
// the flows' former connections.
func askBy(t *testing.T, l *lab.Lab, w daemon.Transport, to netip.AddrPort, flows []flow) []string {
	t.Helper()
	forget(t, l)
	by := make([]string, len(flows))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, f := range flows {
		group.Go(func() (err error) {
			by[i], err = ask(l.Outside, w, netip.AddrPortFrom(daemon.ClientAddr(w.Family, f.client), f.port), to)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return by
}

// ask asks once and returns who answered.
func ask(h *lab.Host, w daemon.Transport, from, to netip.AddrPort) (string, error) {
	a, err := h.AskFrom(w.Protocol, from, to, answer)
	if err == nil && a.Outcome != lab.Answered {
		err = fmt.Errorf("%s asks %s over %s from %s: %s", h, to, w, from, a)
	}
	return a.By, err
}

// forget empties connection tracking on the nodes: to it, a flow that asks again
// is the connection from before, with the endpoint that it had.
func forget(t *testing.T, l *lab.Lab) {
	t.Helper()
	for _, n := range []*lab.Node{l.Node, l.Remote} {
		err := n.Do(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) })
		if err != nil {
			t.Fatalf("forget connections on %s: %v", n, err)
		}
	}
}

// eachInTurn runs a test for every way, one after the other.
func eachInTurn(t *testing.T, test func(*testing.T, daemon.Transport)) {
	t.Helper()
	for _, w := range daemon.Transports() {
		t.Run(w.String(), func(t *testing.T) { test(t, w) })
	}
}

// tally counts the answers of each.
func tally(by []string) map[string]int {
	counts := map[string]int{}
	for _, name := range by {
		counts[name]++
	}
	return counts
}

// even checks that endpoints have shares that differ no more than chance makes
// likely: fair ones fail once in a million times. weights are the shares that
// they should have, by name.
func even(t *testing.T, counts map[string]int, weights map[string]float64) {
	t.Helper()
	total, sum := 0, 0.0
	for name, n := range counts {
		if weights[name] == 0 {
			t.Errorf("%s has answered, which is no endpoint", name)
		}
		total += n
	}
	for _, w := range weights {
		sum += w
	}
	chi := 0.0
	for name, w := range weights {
		want := float64(total) * w / sum
		chi += (float64(counts[name]) - want) * (float64(counts[name]) - want) / want
	}
	// Chi-square at 1e-6 by the approximation of Wilson and Hilferty.
	const z = 4.753
	k := float64(len(weights) - 1)
	a := 1 - 2/(9*k) + z*math.Sqrt(2/(9*k))
	if limit := k * a * a * a; chi > limit {
		t.Errorf("%v: chi-square %.1f, want at most %.1f", counts, chi, limit)
	}
}

// alike are equal weights.
func alike(hosts []*lab.Host) map[string]float64 {
	weights := map[string]float64{}
	for _, h := range hosts {
		weights[h.Name] = 1
	}
	return weights
}
