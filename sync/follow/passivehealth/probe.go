package passivehealth

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// discardPort is where endpoints of other protocols than TCP are probed. Hardly anything listens
// there, so a living host resets the connection (RFC 863).
const discardPort = 9

// target returns where to probe an endpoint.
func (e endpoint) target() netip.AddrPort {
	if e.protocol == model.TCP {
		return e.addr
	}
	return netip.AddrPortFrom(e.addr.Addr(), discardPort)
}

// An outcome is the result of a probe.
type outcome uint8

const (
	outcomeTimeout outcome = iota // no reply, or the host is unreachable
	outcomeReply
	// outcomeUnknown says nothing about the endpoint: a policy replied in its place, or the probe
	// could not be sent.
	outcomeUnknown
)

// A Prober sends probes. Each of their packets has a mark.
type Prober struct{ Mark uint32 }

// HalfOpen is a [net.Dialer.Control] for connections that are closed when they are established. The
// kernel delays their third packet ([unix.TCP_QUICKACK], tcp_rcv_synsent_state_process), and closing
// the socket sends a reset in its place. So the program that listens does not see them, and no side
// keeps a connection in TIME_WAIT, unless this process is stopped for 200 ms just then.
func HalfOpen(_, _ string, c syscall.RawConn) (err error) {
	return errors.Join(c.Control(func(fd uintptr) {
		err = errors.Join(
			unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0),
		)
	}), err)
}

// Probe requests a TCP connection, half-open, and waits for a reply, a reset included.
//
// Errors: nil is a reply, [context.DeadlineExceeded] none in time or an unreachable host. Any other
// error says nothing about the endpoint, for example because a policy prohibits it.
func (p Prober) Probe(ctx context.Context, to netip.AddrPort, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	second := -1 // descriptor of the socket, to read its errors when Dial has closed the first one
	d := net.Dialer{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) (err error) {
		prepare := func(fd uintptr) { second, err = p.prepare(int(fd), to.Addr()) }
		return errors.Join(HalfOpen("", "", c), c.Control(prepare), err)
	}}
	conn, err := d.DialContext(ctx, "tcp", to.String())
	if second >= 0 {
		defer unix.Close(second) //nolint:errcheck // sends the reset, nothing to save
	}
	var timeout net.Error
	switch {
	case err == nil:
		return conn.Close()
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ECONNRESET):
		return nil
	case errors.Is(err, unix.EHOSTUNREACH) && prohibited(second):
		return err
	case errors.As(err, &timeout) && timeout.Timeout(),
		errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EHOSTDOWN):
		return errors.Join(context.DeadlineExceeded, err)
	}
	return err
}

// prepare sets the options of a socket and returns a second descriptor of it.
func (p Prober) prepare(fd int, to netip.Addr) (second int, err error) {
	level, recvErr := unix.IPPROTO_IP, unix.IP_RECVERR
	if to.Is6() {
		level, recvErr = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(p.Mark)),
		unix.SetsockoptInt(fd, level, recvErr, 1),
	)
	if err != nil {
		return -1, err
	}
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}

// prohibited reports whether the host is unreachable because a firewall said so: ICMP
// "administratively prohibited" for the network, the host or the packet (RFC 1812, 5.2.7.1). Over
// IPv6 the error is EACCES.
func prohibited(fd int) bool {
	control := make([]byte, 256)
	_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 64), control, unix.MSG_ERRQUEUE)
	if err != nil {
		return false
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return false
	}
	for _, m := range messages {
		// struct sock_extended_err: errno (4 bytes), origin, type, code
		if m.Header.Level != unix.IPPROTO_IP || m.Header.Type != unix.IP_RECVERR || len(m.Data) < 7 {
			continue
		}
		origin, kind, code := m.Data[4], m.Data[5], m.Data[6]
		const unreachable = 3 // ICMP_DEST_UNREACH
		if origin == unix.SO_EE_ORIGIN_ICMP && kind == unreachable {
			return code == 9 || code == 10 || code == 13
		}
	}
	return false
}

// outcomeOf returns the meaning of an error of [Prober.Probe].
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return outcomeReply
	case errors.Is(err, context.DeadlineExceeded):
		return outcomeTimeout
	}
	return outcomeUnknown
}
