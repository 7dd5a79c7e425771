// Package errqueue reads ICMP errors about a socket's packets from the socket's error
// queue (IP_RECVERR in ip(7), IPV6_RECVERR in ipv6(7)).
package errqueue

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// Set enables (1) or disables (0) the queue of a socket; disabling empties it. The
// family is that of remote.
func Set(fd int, remote netip.Addr, on int) error {
	if remote.Is4() {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, on)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, on)
}

// Error is one message of the queue.
type Error struct {
	Errno syscall.Errno
	// About is the beginning of the packet that caused the error, from the transport
	// header on.
	About []byte
}

// Next removes and returns the oldest message, without waiting. ok is false if there
// is none.
func Next(fd int) (e Error, ok bool) {
	data, control := make([]byte, 64), make([]byte, 256)
	n, size, _, _, err := unix.Recvmsg(fd, data, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return Error{}, false
	}
	e.About = data[:n]
	messages, err := unix.ParseSocketControlMessage(control[:size])
	if err == nil && len(messages) > 0 && len(messages[0].Data) >= 4 {
		// struct sock_extended_err begins with the error number.
		e.Errno = syscall.Errno(binary.NativeEndian.Uint32(messages[0].Data))
	}
	return e, true
}
