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

// answer is how long anything may take that is to come.
const answer = 3 * time.Second

// talk is an established connection, seen from both ends.
type talk struct {
	client, server net.Conn
}

// newTalk connects a client to a Service and takes the connection at the server.
func newTalk(t *testing.T, from *lab.Host, to netip.AddrPort, at net.Listener) talk {
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
	return talk{client, server}
}

// pass sends a text each way.
func (k talk) pass(text []byte) error {
	for _, way := range []struct {
		says     string
		from, to net.Conn
	}{{"client to server", k.client, k.server}, {"server to client", k.server, k.client}} {
		if err := carry(way.from, way.to, text); err != nil {
			return fmt.Errorf("%s: %w", way.says, err)
		}
	}
	return nil
}

// carry sends a text from one end and wants it at the other.
func carry(from, to net.Conn, text []byte) error {
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
		return fmt.Errorf("%d bytes came that were not sent", len(text))
	}
	return <-done
}

// peer is the client's address and port as the server sees it.
func (k talk) peer() netip.AddrPort { return k.server.RemoteAddr().(*net.TCPAddr).AddrPort() }

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
