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
	"kube-vmap/model"
)

// scene is a Service with a scheduler, behind a proxy on node-1.
type scene struct {
	lab     *lab.Lab
	servers []*lab.Host
	folder  *daemon.Folder
	service daemon.Service
	proxy   *daemon.Daemon
}

// newScene returns a scene with a number of endpoints, on both nodes, and one more pod,
// the last one on node-1.
func newScene(t *testing.T, scheduler string, endpoints int) scene {
	t.Helper()
	t.Parallel()
	here := endpoints / 2
	l, servers := daemon.NewLab(t, here+1, endpoints-here)
	servers = append(servers[:here:here], servers[here+1:]...)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Scheduler: scheduler, Kinds: daemon.Kinds}
	f.Put("web", s)
	return scene{l, servers, f, s, daemon.Start(t, l.Node, f)}
}

// at returns the address of the Service, at node-1.
func (s scene) at(w daemon.Transport, k model.Kind) netip.AddrPort {
	return s.service.AddrPort(s.lab.Node, w.Family, k, 0)
}

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// answer is the timeout of a question.
	answer = 5 * time.Second
	// workers is the number of concurrent questions.
	workers = 4
)

// flow is the number of a client outside, and its port.
type flow struct {
	client int
	port   uint16
}

const firstPort = 21000

func flowsOf(clients, ports int) []flow {
	var all []flow
	for c := range clients {
		for p := range ports {
			all = append(all, flow{c, firstPort + uint16(p)})
		}
	}
	return all
}

// askBy asks once over every flow and returns the hosts that answered. It removes the
// flows from connection tracking first.
func askBy(t *testing.T, l *lab.Lab, w daemon.Transport, to netip.AddrPort, flows []flow) []string {
	t.Helper()
	forget(t, l)
	by := make([]string, len(flows))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, f := range flows {
		group.Go(func() error {
			from := netip.AddrPortFrom(daemon.ClientAddr(w.Family, f.client), f.port)
			a, err := l.Outside.AskFrom(w.Protocol, from, to, answer)
			if by[i] = a.By; err == nil && a.Outcome != lab.Answered {
				err = fmt.Errorf("%s asks %s over %s: %s", from, to, w, a)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return by
}

// forget empties connection tracking on the nodes. Otherwise a flow that asks again is
// the connection from before, with its endpoint.
func forget(t *testing.T, l *lab.Lab) {
	t.Helper()
	for _, n := range []*lab.Node{l.Node, l.Remote} {
		err := n.Do(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) })
		if err != nil {
			t.Fatalf("flush connection tracking on %s: %v", n, err)
		}
	}
}

// eachInTurn runs a test for every transport, one after the other; in the gate for every protocol
// and for both families.
func eachInTurn(t *testing.T, test func(*testing.T, daemon.Transport)) {
	t.Helper()
	for _, w := range daemon.Transports() {
		if testing.Short() && int(w.Family) != int(w.Protocol)%2 {
			continue
		}
		t.Run(w.String(), func(t *testing.T) { test(t, w) })
	}
}

// tally counts the answers by host.
func tally(by []string) map[string]int {
	counts := map[string]int{}
	for _, name := range by {
		counts[name]++
	}
	return counts
}

// even checks that the shares of endpoints differ no more than by chance: correct ones
// fail once in a million times. weights are the expected shares by name.
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
