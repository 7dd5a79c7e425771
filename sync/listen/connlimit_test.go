package listen

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync/listen/listentest"
)

// pairs connects to listeners in turn, and returns both ends of each connection.
func pairs(t *testing.T, n int, listeners ...net.Listener) (clients, servers []net.Conn) {
	t.Helper()
	for i := range n {
		l := listeners[i%len(listeners)]
		client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		clients, servers = append(clients, client), append(servers, server)
	}
	return clients, servers
}

// bothFamilies returns listeners on the loopback addresses with one limit.
func bothFamilies(t *testing.T, b *ConnLimit) []net.Listener {
	t.Helper()
	var all []net.Listener
	for _, f := range model.Families {
		l, err := listentest.Listen(t, netip.AddrPortFrom(listentest.Loopback[f], 0))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		all = append(all, b.Listener(l))
	}
	return all
}

// isClosed reports whether the other end has closed an idle connection.
func isClosed(t *testing.T, c net.Conn) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Read(make([]byte, 1))
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, io.EOF) {
		t.Fatalf("read from an idle connection: %v", err)
	}
	return errors.Is(err, io.EOF)
}

func TestOldestConnectionIsClosedAtTheLimit(t *testing.T) {
	const limit, count = 4, 6
	clients, _ := pairs(t, count, bothFamilies(t, NewConnLimit(limit))...)
	for i, c := range clients {
		if got, want := isClosed(t, c), i < count-limit; got != want {
			t.Errorf("%d connections, limit %d: number %d is closed: %t", count, limit, i, got)
		}
	}
}

func TestClosedConnectionsDoNotCount(t *testing.T) {
	const limit = 3
	listeners := bothFamilies(t, NewConnLimit(limit))
	clients, servers := pairs(t, limit, listeners...)
	for range 2 { // closing twice counts once
		_ = servers[1].Close()
	}
	more, _ := pairs(t, 1, listeners...)
	for i, c := range append(clients, more...) {
		if got, want := isClosed(t, c), i == 1; got != want {
			t.Errorf("connection %d is closed: %t", i, got)
		}
	}
	evenMore, _ := pairs(t, 1, listeners...)
	if !isClosed(t, clients[0]) || isClosed(t, evenMore[0]) {
		t.Error("the closed connection was counted twice")
	}
}
