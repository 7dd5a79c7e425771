package sctp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab/internal/errqueue"
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

// network returns the name of raw SCTP sockets in package net.
func network(a netip.Addr) string {
	if a.Is4() {
		return "ip4:132"
	}
	return "ip6:132"
}

// readBuffer has room for thousands of packets: a raw socket receives the packets and errors
// of all sockets of its address, and the kernel drops what has no room.
const readBuffer = 8 << 20

// prepare enlarges the socket's buffer, and makes sure that the kernel does not write an
// Internet checksum into packets. Only raw IPv6 sockets do that, on request.
func prepare(conn *net.IPConn, a netip.Addr) error {
	return control(conn, func(fd int) error {
		err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, readBuffer)
		if err != nil || a.Is4() {
			return err
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_CHECKSUM, -1)
	})
}

// wantErrors enables ICMP errors with the packet that each is about. Otherwise a raw
// socket, which has no port, would report the errors of all clients of the same
// address.
func wantErrors(conn *net.IPConn, a netip.Addr) error {
	return control(conn, func(fd int) error { return errqueue.Set(fd, a, 1) })
}

// queuedError empties the socket's error queue and returns the ICMP error about
// packets from port local to port remote, or nil.
func queuedError(conn *net.IPConn, local, remote uint16) error {
	return control(conn, func(fd int) (found error) {
		for e, ok := errqueue.Next(fd); ok; e, ok = errqueue.Next(fd) {
			b := e.About
			if len(b) >= 4 && binary.BigEndian.Uint16(b) == local && binary.BigEndian.Uint16(b[2:]) == remote {
				found = e.Errno
			}
		}
		return found
	})
}

func control(conn *net.IPConn, fn func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = fn(int(fd)) }); err != nil {
		return err
	}
	return failed
}
