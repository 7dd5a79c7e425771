package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// connections is how many one client makes: it uses many of its ports again within the minute for
// which a server that closes first has them in TIME-WAIT. So the node's choice of a source port
// decides whether the server has the next connection in TIME-WAIT (docs/reports/masquerade.md).
const connections = 20_000

// TestNoMasqueradedConnectionStalls has one client outside connect to a node port, whose
// connections the node masquerades. With a random source port every 40th of them sends its SYN
// again, and every 1,000th waits for a second.
func TestNoMasqueradedConnectionStalls(t *testing.T) {
	l, service := newNode(t)
	closeFirst(t, l.Pods[0])
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			to := service.AddrPort(l.Node, f, model.KindNodePort, 1)
			before, tracked := count(t, l.Outside), count(t, l.Node.Host)
			for n := range connections {
				if again, err := visit(t.Context(), l.Outside, to); err != nil || again > 1 {
					t.Fatalf("connection %d sent its SYN again %d times: %v", n, again, err)
				}
			}
			again := count(t, l.Outside).since(before, "TCPSynRetrans")
			if t.Logf("%d SYNs sent again", again); again > connections/10_000 {
				t.Errorf("%d SYNs were sent again, want at most %d", again, connections/10_000)
			}
			for _, name := range []string{"insert_failed", "drop"} {
				if n := count(t, l.Node.Host).since(tracked, name); n > 0 {
					t.Errorf("%s of connection tracking: %d", name, n)
				}
			}
		})
	}
}

// closeFirst has a pod accept connections and close them immediately, until the lab ends.
func closeFirst(t *testing.T, pod *lab.Pod) {
	t.Helper()
	server, err := pod.Backlog(daemon.TargetPort + 1)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
}

// visit makes a connection, which the server closes, and returns how often its SYN was sent again.
func visit(ctx context.Context, from *lab.Host, to netip.AddrPort) (again uint32, err error) {
	c, err := from.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	control := raw.Control(func(fd uintptr) {
		var info *unix.TCPInfo
		if info, err = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO); err == nil {
			again = info.Total_retrans
		}
	})
	if err := errors.Join(control, err, c.SetReadDeadline(time.Now().Add(answer))); err != nil {
		return again, err
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return again, fmt.Errorf("read %d bytes: %w", n, err)
	}
	return again, nil
}

// TestSourcePortByProtocol has two clients ask from the same ports. The first one keeps its
// ports over TCP and SCTP, the second one gets others while those are in use: at random, and not the
// next ones. Over UDP both get other ports.
func TestSourcePortByProtocol(t *testing.T) {
	l, service := newNode(t)
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
				a, err := flow.Ask(answer)
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
		case w.Protocol == model.UDP && kept[0] < ports && kept[1] < ports:
		case w.Protocol != model.UDP && kept == [2]int{ports, 0}:
		default:
			t.Errorf("of %d ports each, the clients kept %v", ports, kept)
		}
	})
}

// newNode is a node with kube-vmap, and a Service with two node ports.
func newNode(t *testing.T) (*lab.Lab, daemon.Service) {
	t.Helper()
	l, f := newScene(t)
	service := daemon.Service{Name: "web", Number: 1, Kinds: []model.Kind{model.KindNodePort}, EndpointSpec: "pod-1", Ports: 2}
	f.Put("web", service)
	start(t, l, f)
	return l, service
}
