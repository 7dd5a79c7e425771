package listen

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync/follow/listen/listentest"
)

// pairs connects to listeners in turn, and returns both ends of each connection.
func pairs(t *testing.T, n int, listeners ...net.Listener) (clients, servers []net.Conn) {
	t.Helper()
	for i := range n {
		l := listeners[i%len(listeners)]
		client := listentest.Dial(t, l.Addr().(*net.TCPAddr).AddrPort())
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

// expectClosed checks whether the other end has closed an idle connection.
func expectClosed(t *testing.T, what string, c net.Conn, want bool) {
	t.Helper()
	wait := 50 * time.Millisecond
	if want {
		wait = listentest.Timeout
	}
	if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); errors.Is(err, io.EOF) != want || !want && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: %v, want it closed: %t", what, err, want)
	}
}

func TestOldestConnectionIsClosedAtTheLimit(t *testing.T) {
	const limit, count = 4, 6
	clients, _ := pairs(t, count, bothFamilies(t, NewConnLimit(limit))...)
	for i, c := range clients {
		expectClosed(t, fmt.Sprint("connection ", i), c, i < count-limit)
	}
}

func TestClosedAndExemptConnectionsDoNotCount(t *testing.T) {
	const limit = 3
	listeners := bothFamilies(t, NewConnLimit(limit))
	clients, servers := pairs(t, limit, listeners...)
	for range 2 { // closing twice counts once
		_ = servers[1].Close()
	}
	more, _ := pairs(t, 1, listeners...)
	for i, c := range append(clients, more...) {
		expectClosed(t, fmt.Sprint("connection ", i), c, i == 1)
	}
	Exempt(servers[0])
	evenMore, _ := pairs(t, 2, listeners...)
	expectClosed(t, "the oldest, exempt", clients[0], false)
	expectClosed(t, "the next one, with more", clients[2], true)
	expectClosed(t, "the newest", evenMore[1], false)
}
