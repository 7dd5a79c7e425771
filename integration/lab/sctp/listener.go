package sctp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// errKernel is returned if the kernel's SCTP module is loaded: it would abort every
// association that is not its own.
var errKernel = errors.New("the kernel's SCTP module is loaded")

// maxPacket is more than a link with the usual MTU delivers.
const maxPacket = 4096

// Listener receives every SCTP packet for one local address and answers it. An address must not
// have two listeners: each would refuse the ports of the other.
type Listener struct {
	responder
	conn *net.IPConn
}

// Listen opens a raw socket on addr, in the network namespace of the calling
// thread. The caller must close it.
func Listen(addr netip.Addr) (*Listener, error) {
	if _, err := os.Stat("/proc/thread-self/net/sctp"); err == nil {
		return nil, fmt.Errorf("listen for SCTP on %s: %w", addr, errKernel)
	}
	conn, err := net.ListenIP(network(addr), ipAddr(addr))
	if err != nil {
		return nil, fmt.Errorf("listen for SCTP: %w", err)
	}
	if err := prepare(conn, addr); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Listener{conn: conn}, nil
}

// Serve answers packets until the listener is closed, and then returns nil. An answer that cannot
// be sent is like a lost packet.
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
		p, err := decode(buf[:n])
		if err != nil {
			continue
		}
		addr, _ := netip.AddrFromSlice(from.IP)
		if out := l.answer(addr.Unmap(), p); len(out.chunks) > 0 {
			_, _ = l.conn.WriteToIP(out.encode(), from)
		}
	}
}

// Close closes the socket, which ends [Listener.Serve].
func (l *Listener) Close() error { return l.conn.Close() }
