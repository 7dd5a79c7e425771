package fastpath

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/nft/kernel/flowtable"
)

// secondPort is the target port of the second port of a Service, at which pod-1 returns what it
// receives.
const secondPort = daemon.TargetPort + 1

func (m *machine) serveEcho(f model.Family) {
	m.t.Helper()
	pod := m.Pods[0]
	var l net.Listener
	if err := pod.Do(func() (err error) { l, err = net.Listen("tcp", pod.AddrPort(f, secondPort).String()); return err }); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
}

func (m *machine) echo(c net.Conn, data []byte) {
	m.t.Helper()
	back := make([]byte, len(data))
	if err := c.SetDeadline(time.Now().Add(answer)); err != nil {
		m.t.Fatal(err)
	}
	if _, err := c.Write(data); err != nil {
		m.t.Fatal(err)
	}
	if _, err := io.ReadFull(c, back); err != nil || !bytes.Equal(back, data) {
		m.t.Fatalf("%d bytes come back as others, or not: %v", len(data), err)
	}
}

// open returns how many open TCP connections the kernel tracks to the second port.
func (m *machine) openConnections(f model.Family) (n int) {
	m.t.Helper()
	to := m.service.AddrPort(nil, f, model.KindClusterIP, 1)
	err := conntrack.New(conntrack.Config{NetNS: m.Node.FD()}).EachTranslated(func() { n = 0 }, func(e conntrack.Entry) {
		if e.Protocol == model.TCP && e.Original == to && e.Open {
			n++
		}
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

// TestClosedConnectionIsNotOpen also sends more than one packet holds, both ways.
func TestClosedConnectionIsNotOpen(t *testing.T) {
	m := newMachine(t, lab.Options{Pods: 3}, "pod-1")
	m.service.Ports = 2
	m.After(func() { m.folder.Put("web", m.service) })
	for _, f := range model.Families {
		m.serveEcho(f)
		c, err := m.Pods[2].DialContext(t.Context(), "tcp", m.service.AddrPort(nil, f, model.KindClusterIP, 1).String())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 * entered {
			m.echo(c, []byte("small"))
		}
		seen := m.forwarded(f, func() { m.echo(c, bytes.Repeat([]byte("large"), 100_000)) })
		if seen > 0 {
			t.Errorf("%s: the hook saw %d packets of a large message", f, seen)
		}
		if n := m.openConnections(f); n != 1 {
			t.Errorf("%s: %d connections are open on the fast path, want 1", f, n)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), m.closes())
		defer cancel()
		if err := eventually.Try(ctx, func() error {
			if m.openConnections(f) > 0 {
				return errThere
			}
			return nil
		}); err != nil {
			t.Errorf("%s: the closed connection is open: %v", f, err)
		}
	}
}

// closes returns how long a closed connection counts as open at most. In kernels with
// fdbaf5163331 (2025) it stays in the flowtable, for half a minute after its last packet.
func (m *machine) closes() time.Duration {
	m.t.Helper()
	all, err := flowtable.List(m.Node.FD())
	if err != nil || len(all) != 1 {
		m.t.Fatalf("not one flowtable: %+v, %v", all, err)
	}
	if hasEvery(&all[0]) {
		return time.Minute
	}
	return answer
}
