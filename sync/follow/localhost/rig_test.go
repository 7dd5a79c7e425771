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
	"kube-vmap/sync/follow/listen/listentest"
)

// A rig has a Proxy with a recorder and a log.
type rig struct {
	*Proxy
	stop     func() // of a proxy that served has started
	recorder listentest.Recorder
	log      listentest.LogBuffer
}

func newRig() *rig {
	r := &rig{}
	r.Proxy = New(Config{Families: [...]bool{true, true}, Recorder: &r.recorder, Log: r.log.Log()})
	return r
}

func (r *rig) run(t *testing.T) (stop func()) { return listentest.Run(t, r.Run) }

// A backend is a Service's only endpoint, and listens on its ClusterIP, because tests
// have no rules. It passes connections to the test.
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

// nodePort returns the frontend of a Service with this backend.
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

// A pair has both ends of a connection through the proxy.
type pair struct{ client, server *net.TCPConn }

// connect connects through the proxy as soon as it listens.
func (b *backend) connect(t *testing.T, port uint16) pair {
	t.Helper()
	p := pair{client: listentest.Dial(t, b.local(port))}
	select {
	case p.server = <-b.in:
	case <-time.After(listentest.Timeout):
		t.Fatal("no connection to the backend")
	}
	t.Cleanup(func() { p.server.Close() })
	if err := p.server.SetDeadline(time.Now().Add(listentest.Timeout)); err != nil {
		t.Fatal(err)
	}
	return p
}

// local returns the address where the proxy serves a port.
func (b *backend) local(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(loopback[model.FamilyOf(b.addr.Addr())], port)
}

// send sends a word and receives it.
func send(t *testing.T, to, from net.Conn, word string) {
	t.Helper()
	if _, err := io.WriteString(from, word); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(word))
	if _, err := io.ReadFull(to, got); err != nil || string(got) != word {
		t.Fatalf("%q arrives as %q, %v", word, got, err)
	}
}

// talk sends a word in each direction.
func (p pair) talk(t *testing.T) {
	t.Helper()
	send(t, p.server, p.client, "request")
	send(t, p.client, p.server, "response")
}

// served starts a proxy for one Service in one family, after changes to it.
func served(t *testing.T, f model.Family, change ...func(*rig)) (*rig, *backend, uint16) {
	t.Helper()
	r, b, port := newRig(), newBackend(t, f), listentest.FreePort(t)
	for _, f := range change {
		f(r)
	}
	r.stop = r.run(t)
	r.Follow(sync.Committed{Full: true, Set: []model.Frontend{b.nodePort("web", port)}})
	return r, b, port
}

// inBoth runs a test in each family.
func inBoth(t *testing.T, test func(*testing.T, model.Family)) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) { test(t, f) })
	}
}

// A dialer connects for a proxy.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)
