package invalid

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/lab"
)

// answer is the timeout for what must happen.
const answer = 3 * time.Second

// A connection is the two ends of an established connection.
type connection struct {
	client, server net.Conn
}

// newConnection connects a client to a Service and accepts the connection at the server.
func newConnection(t *testing.T, from *lab.Host, to netip.AddrPort, at net.Listener) connection {
	t.Helper()
	client, err := from.DialContext(t.Context(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err := at.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return connection{client, server}
}

// pass sends a text in both directions.
func (k connection) pass(text []byte) error {
	for _, direction := range []struct {
		name     string
		from, to net.Conn
	}{{"client to server", k.client, k.server}, {"server to client", k.server, k.client}} {
		if err := transfer(direction.from, direction.to, text); err != nil {
			return fmt.Errorf("%s: %w", direction.name, err)
		}
	}
	return nil
}

// transfer sends a text from one end and reads it at the other.
func transfer(from, to net.Conn, text []byte) error {
	deadline := time.Now().Add(answer)
	if err := to.SetReadDeadline(deadline); err != nil {
		return err
	}
	if err := from.SetWriteDeadline(deadline); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { _, err := from.Write(text); done <- err }()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(to, got); err != nil {
		return err
	}
	if !bytes.Equal(got, text) {
		return fmt.Errorf("received %d bytes that were not sent", len(text))
	}
	return <-done
}

// peer returns the client's address and port as the server sees them.
func (k connection) peer() netip.AddrPort { return k.server.RemoteAddr().(*net.TCPAddr).AddrPort() }

// listen opens the server's port.
func listen(t *testing.T, h *lab.Host, at netip.AddrPort) net.Listener {
	t.Helper()
	var l net.Listener
	err := h.Do(func() (err error) { l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at)); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
