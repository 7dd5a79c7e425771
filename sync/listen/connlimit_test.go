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

// pairs connects to listeners, in turn, and returns both ends of each connection in
// the order in which they came.
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

// bothFamilies are listeners on the loopback addresses, which count together.
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

// over reports whether the other end has closed the connection; one that is open is
// silent.
func over(t *testing.T, c net.Conn) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Read(make([]byte, 1))
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, io.EOF) {
		t.Fatalf("from a connection that nobody writes to: %v", err)
	}
	return errors.Is(err, io.EOF)
}

func TestOldestConnectionIsClosedAtTheLimit(t *testing.T) {
	const most, came = 4, 6
	clients, _ := pairs(t, came, bothFamilies(t, NewConnLimit(most))...)
	for i, c := range clients {
		if got, want := over(t, c), i < came-most; got != want {
			t.Errorf("of %d connections where there is place for %d, number %d is over: %t", came, most, i, got)
		}
	}
}

func TestClosedConnectionsDoNotCount(t *testing.T) {
	const most = 3
	listeners := bothFamilies(t, NewConnLimit(most))
	clients, servers := pairs(t, most, listeners...)
	for range 2 { // the second time it does not count
		_ = servers[1].Close()
	}
	more, _ := pairs(t, 1, listeners...)
	for i, c := range append(clients, more...) {
		if got, want := over(t, c), i == 1; got != want {
			t.Errorf("connection %d is over: %t", i, got)
		}
	}
	evenMore, _ := pairs(t, 1, listeners...)
	if !over(t, clients[0]) || over(t, evenMore[0]) {
		t.Error("the place that was left counts twice")
	}
}
