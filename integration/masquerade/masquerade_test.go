package masquerade

import (
	"net/netip"
	"os"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

// connections is how many one client makes: it uses many of its ports again within the
// minute for which the server has them in TIME-WAIT.
const connections = 20_000

// TestNoMasqueradedConnectionStalls has one client outside connect to a node port, whose
// connections the node masquerades. With a random source port every 40th of them sends its SYN
// again, and every 1,000th waits for a second.
func TestNoMasqueradedConnectionStalls(t *testing.T) {
	l, service := newNode(t)
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			server, err := Serve(l.Pods[0].Host, f)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			load := Load{
				Host: l.Outside, To: service.AddrPort(l.Node, f, model.KindNodePort, 0), Count: connections,
			}
			before, tracked := count(t, l.Outside), count(t, l.Node.Host)
			r, err := load.Run()
			if err != nil {
				t.Fatal(err)
			}
			again := count(t, l.Outside).Since(before, "TCPSynRetrans")
			t.Logf("p50 %s, p99.9 %s, %s in all; %d SYNs sent again", r.Latencies[connections/2],
				r.Latencies[connections-connections/1000], r.Took, again)
			if again > connections/10_000 || r.Twice > 0 {
				t.Errorf("%d SYNs were sent again, want at most %d; %d connections sent theirs more than twice",
					again, connections/10_000, r.Twice)
			}
			for _, name := range []string{"insert_failed", "drop"} {
				if n := count(t, l.Node.Host).Since(tracked, name); n > 0 {
					t.Errorf("%s of connection tracking: %d", name, n)
				}
			}
		})
	}
}

// TestSourcePortByProtocol has two clients ask from the same ports. The first one keeps its
// ports over TCP, the second one gets others while those are in use: at random, and not the next
// ones. Over UDP and SCTP both get other ports.
func TestSourcePortByProtocol(t *testing.T) {
	l, service := newNode(t)
	daemon.AddClients(t, l)
	if err := l.Pods[0].ServeAll(daemon.TargetPort); err != nil {
		t.Fatal(err)
	}
	const ports, first = 8, 7000
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		to := service.AddrPort(l.Node, w.Family, model.KindNodePort, 0)
		var kept, next [2]int // ports of each client
		for port := range uint16(ports) {
			for i := range kept {
				flow, err := l.Outside.Flow(w.Protocol, netip.AddrPortFrom(daemon.ClientAddr(w.Family, i), first+port), to)
				if err != nil {
					t.Fatal(err)
				}
				a, err := flow.Ask(patience)
				if err != nil || a.Outcome != lab.Answered || a.Seen.Addr() != l.Node.Gateway(w.Family) {
					t.Fatalf("client %d: %s, %v", i, a, err)
				}
				switch a.Seen.Port() - (first + port) {
				case 0:
					kept[i]++
				case 1: // the next one
					next[i]++
				}
			}
		}
		if next[0]+next[1] > 1 {
			t.Errorf("of %d ports each, %v were the next ones", ports, next)
		}
		switch {
		case w.Protocol != model.TCP && kept[0] < ports && kept[1] < ports:
		case w.Protocol == model.TCP && kept == [2]int{ports, 0}:
		default:
			t.Errorf("of %d ports each, the clients kept %v", ports, kept)
		}
	})
}

// newNode is a node with kube-vmap, and a Service with a node port.
func newNode(t *testing.T) (*lab.Lab, daemon.Service) {
	t.Helper()
	t.Parallel()
	l := labtest.New(t, lab.Options{Pods: 1})
	service := daemon.Service{
		Name: "web", Number: 1, Kinds: []model.Kind{model.KindNodePort}, Endpoints: []*lab.Host{l.Pods[0].Host},
	}
	folder := daemon.NewFolder(t, l)
	folder.Put("web", service)
	daemon.Start(t, l.Node, folder)
	return l, service
}

func count(t *testing.T, h *lab.Host) Counters {
	t.Helper()
	c, err := Count(h)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
