package invalid

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
)

// answer is the timeout for what must happen.
const answer = 10 * time.Second

// A connection is the two ends of an established connection. The server returns what it receives.
type connection struct {
	client net.Conn
	server *net.TCPConn
}

// newConnection connects a client to a Service and accepts the connection at the server.
func newConnection(t *testing.T, from *lab.Host, to netip.AddrPort, at *net.TCPListener) connection {
	t.Helper()
	client, err := from.DialContext(t.Context(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err := at.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() { _, _ = io.Copy(server, server) }()
	return connection{client, server}
}

// pass sends a text in both directions.
func (k connection) pass(text []byte) error {
	if err := k.client.SetDeadline(time.Now().Add(answer)); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { _, err := k.client.Write(text); done <- err }()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(k.client, got); err != nil {
		return err
	}
	if !bytes.Equal(got, text) {
		return errors.New("received other bytes than were sent")
	}
	return <-done
}

// Queues of a socket in repair mode, and the value that ends this mode without a window probe
// (include/uapi/linux/tcp.h).
const receiveQueue, sendQueue, repairEnds = 1, 2, -1

// due returns the segment that the server sends next, without a payload.
func (k connection) due() (s segment, err error) {
	s.from, s.to = addrPort(k.server.LocalAddr()), addrPort(k.server.RemoteAddr())
	raw, err := k.server.SyscallConn()
	if err != nil {
		return s, err
	}
	control := raw.Control(func(fd uintptr) {
		number := func(queue int) uint32 {
			err = errors.Join(err, unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_REPAIR_QUEUE, queue))
			n, failed := unix.GetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_QUEUE_SEQ)
			err = errors.Join(err, failed)
			return uint32(n)
		}
		err = unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_REPAIR, 1)
		s.seq, s.ack = number(sendQueue), number(receiveQueue)
		err = errors.Join(err, unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_REPAIR, repairEnds))
	})
	return s, errors.Join(control, err)
}

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }
