package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
)

// errNoAnswer is returned for a ping without an answer.
var errNoAnswer = errors.New("no answer")

// icmp is what differs between the two versions.
type icmp struct {
	domain, protocol     int
	echo                 byte
	unreachable, port    byte // type and code of port unreachable
	header, quoted, addr int  // lengths: before the message, before the quoted packet's destination, of it
}

func icmpOf(a netip.Addr) icmp {
	if a.Is4() {
		return icmp{unix.AF_INET, unix.IPPROTO_ICMP, 8, 3, 3, 20, 8 + 16, 4}
	}
	return icmp{unix.AF_INET6, unix.IPPROTO_ICMPV6, 128, 1, 4, 0, 8 + 24, 16}
}

// pingUnreachable sends an ICMP echo and returns nil if the answer is port
// unreachable, errNoAnswer if there is none, and another error for any other.
func pingUnreachable(from *lab.Host, to netip.Addr, timeout time.Duration) error {
	return from.Do(func() error {
		v := icmpOf(to)
		fd, err := unix.Socket(v.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, v.protocol)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		limit := unix.NsecToTimeval(int64(timeout))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
			return err
		}
		// On the node that filters, sending returns the error.
		if err := unix.Sendto(fd, v.request(), 0, v.sockaddr(to)); err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
		return v.await(fd, to)
	})
}

// request is an echo request; for IPv6 the kernel fills in the checksum.
func (v icmp) request() []byte {
	b := []byte{v.echo, 0, 0, 0, 0x12, 0x34, 0, 1}
	if v.domain == unix.AF_INET {
		sum := uint32(v.echo)<<8 + 0x1234 + 1
		binary.BigEndian.PutUint16(b[2:], ^uint16(sum))
	}
	return b
}

func (v icmp) sockaddr(a netip.Addr) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Addr: a.As16()}
}

// await reads until a message is about a packet to the address.
func (v icmp) await(fd int, to netip.Addr) error {
	buf := make([]byte, 2048)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return errNoAnswer
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		}
		m := buf[min(v.header, n):n]
		if len(m) < v.quoted+v.addr || !bytes.Equal(m[v.quoted:v.quoted+v.addr], to.AsSlice()) {
			continue
		}
		if m[0] != v.unreachable || m[1] != v.port {
			return fmt.Errorf("ICMP type %d code %d", m[0], m[1])
		}
		return nil
	}
}
