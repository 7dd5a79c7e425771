package localhost

import (
	"context"
	"io"
	"net"
	"net/netip"
	stdsync "sync"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/listen/listentest"
)

// rig is a relay.
type rig struct {
	*Proxy
	recorder listentest.Recorder
	journal  listentest.LogBuffer
}

func newRig(c Config) *rig {
	r := &rig{}
	c.Recorder, c.Log = &r.recorder, r.journal.Log()
	r.Proxy = New(c)
	return r
}

func (r *rig) run(t *testing.T) (stop func()) { return listentest.Run(t, r.Run) }

// backend is a Service's only endpoint, which is where its ClusterIP is, too: no
// rule leads anywhere. It hands each connection to the test.
type backend struct {
	addr netip.AddrPort
	in   chan *net.TCPConn
}

func newBackend(t *testing.T, f model.Family) *backend {
	t.Helper()
	l, err := listentest.Listen(t, netip.AddrPortFrom(loopback[f], 0))
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{addr: l.Addr().(*net.TCPAddr).AddrPort(), in: make(chan *net.TCPConn)}
	over := make(chan struct{})
	var accepting stdsync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			select {
			case b.in <- c:
			case <-over:
				c.Close()
			}
		}
	})
	t.Cleanup(func() {
		close(over)
		l.Close()
		accepting.Wait()
	})
	return b
}

// nodePort is the frontend of a Service with this backend, in its family.
func (b *backend) nodePort(name string, port uint16) model.Frontend {
	f := model.FamilyOf(b.addr.Addr())
	return model.Frontend{
		Match: model.Match{Family: f, Protocol: model.TCP, Port: port}, Kind: model.KindNodePort,
		Service: model.ServicePortName{
			ServiceName: model.ServiceName{Namespace: "default", Name: name}, Protocol: model.TCP,
		},
		Pool: &model.Pool{
			Key:     model.Match{Family: f, Addr: b.addr.Addr(), Protocol: model.TCP, Port: b.addr.Port()},
			Cluster: []netip.AddrPort{b.addr},
		},
	}
}

// pair is a relayed connection: both of its ends.
type pair struct{ client, server *net.TCPConn }

// connect connects through the relay, as soon as it listens.
func (b *backend) connect(t *testing.T, port uint16) pair {
	t.Helper()
	p := pair{client: dial(t, b.local(port))}
	select {
	case p.server = <-b.in:
	case <-time.After(listentest.Timeout):
		t.Fatal("the connection does not come out")
	}
	t.Cleanup(func() { p.server.Close() })
	limit(t, p.server)
	return p
}

// local is where the relay serves a port.
func (b *backend) local(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(loopback[model.FamilyOf(b.addr.Addr())], port)
}

// dial connects as soon as somebody listens.
func dial(t *testing.T, addr netip.AddrPort) *net.TCPConn {
	t.Helper()
	var c net.Conn
	listentest.Eventually(t, "a connection to "+addr.String(), func() bool {
		var err error
		c, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", addr.String())
		return err == nil
	})
	t.Cleanup(func() { c.Close() })
	limit(t, c.(*net.TCPConn))
	return c.(*net.TCPConn)
}

// limit ends what takes too long.
func limit(t *testing.T, c *net.TCPConn) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(listentest.Timeout)); err != nil {
		t.Fatal(err)
	}
}

// say sends a word one way.
func say(t *testing.T, to, from net.Conn, word string) {
	t.Helper()
	if _, err := io.WriteString(from, word); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(word))
	if _, err := io.ReadFull(to, got); err != nil || string(got) != word {
		t.Fatalf("%q arrives as %q, %v", word, got, err)
	}
}

// talk sends a word each way.
func (p pair) talk(t *testing.T) {
	t.Helper()
	say(t, p.server, p.client, "question")
	say(t, p.client, p.server, "answer")
}

// served starts a relay of one Service in one family.
func served(t *testing.T, c Config, f model.Family) (*rig, *backend, uint16) {
	t.Helper()
	r, b, port := newRig(c), newBackend(t, f), listentest.FreePort(t)
	r.run(t)
	r.Follow(sync.Committed{Full: true, Set: []model.Frontend{b.nodePort("web", port)}})
	return r, b, port
}

// inBoth runs a test in each family.
func inBoth(t *testing.T, test func(*testing.T, model.Family)) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) { test(t, f) })
	}
}

// dialer is who connects for a relay.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)
