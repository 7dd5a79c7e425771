package sctp

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab/internal/errqueue"
)

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
