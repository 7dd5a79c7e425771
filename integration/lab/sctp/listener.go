package sctp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// ErrKernel says that the kernel has SCTP itself: it would abort every
// association it does not know of, that is, ours.
var ErrKernel = errors.New("the kernel's own SCTP is in the way")

// maxPacket is more than a link of the usual MTU delivers.
const maxPacket = 4096

// Listener receives every SCTP packet for one local address and answers with a
// [Responder], which opens and closes ports. One address must not have two
// listeners: each would refuse the ports of the other.
type Listener struct {
	Responder
	conn *net.IPConn
}

// Listen opens a raw socket on addr, in the network namespace of the calling
// thread. It must be closed.
func Listen(addr netip.Addr) (*Listener, error) {
	if _, err := os.Stat("/proc/thread-self/net/sctp"); err == nil {
		return nil, fmt.Errorf("listen for SCTP on %s: %w", addr, ErrKernel)
	}
	conn, err := net.ListenIP(network(addr), &net.IPAddr{IP: addr.AsSlice()})
	if err != nil {
		return nil, fmt.Errorf("listen for SCTP: %w", err)
	}
	if err := leaveChecksum(conn, addr); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Listener{conn: conn}, nil
}

// Serve answers packets until the listener is closed, which is no error.
func (l *Listener) Serve() error {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := l.conn.ReadFromIP(buf)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive SCTP: %w", err)
		}
		l.answer(buf[:n], from)
	}
}

// answer has nobody to tell of an error: to the client, an answer that cannot be
// sent is one that got lost.
func (l *Listener) answer(b []byte, from *net.IPAddr) {
	p, err := Decode(b)
	if err != nil {
		return
	}
	addr, _ := netip.AddrFromSlice(from.IP)
	if out, ok := l.Answer(addr.Unmap(), p); ok {
		_, _ = l.conn.WriteToIP(out.Encode(), from)
	}
}

// Close closes the socket, and by it ends [Listener.Serve].
func (l *Listener) Close() error { return l.conn.Close() }
