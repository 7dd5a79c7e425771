package lab

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab/internal/errqueue"
	"kube-vmap/model"
)

// socket is a client's TCP or UDP socket that blocks its thread. With thousands of
// questions, waking up goroutines through the runtime's poller would take most of the
// time.
type socket struct {
	fd        int
	stream    bool
	remote    netip.AddrPort
	connected bool
	buf       []byte
	filled    int
}

// openSocket opens a socket in the network namespace of the calling thread.
func openSocket(p model.Protocol, from, to netip.AddrPort) (*socket, error) {
	family, kind := unix.AF_INET6, unix.SOCK_DGRAM
	if to.Addr().Is4() {
		family = unix.AF_INET
	}
	if p == model.TCP {
		kind = unix.SOCK_STREAM
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(p))
	if err != nil {
		return nil, fmt.Errorf("open %s socket: %w", p, err)
	}
	s := &socket{fd: fd, stream: p == model.TCP, remote: to, buf: make([]byte, 128)}
	if err := s.prepare(from); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s socket: %w", p, err), s.Close())
	}
	return s, nil
}

func (s *socket) prepare(from netip.AddrPort) error {
	if s.stream {
		// A reset at the end leaves no TIME-WAIT, which would use up the client's ports
		// after thousands of connections, and frees a given port immediately.
		linger := unix.Linger{Onoff: 1}
		if err := unix.SetsockoptLinger(s.fd, unix.SOL_SOCKET, unix.SO_LINGER, &linger); err != nil {
			return err
		}
	}
	if from == (netip.AddrPort{}) {
		return nil
	}
	if !from.Addr().IsValid() {
		from = netip.AddrPortFrom(defaultRoute(s.remote.Addr()).Addr(), from.Port())
	}
	// A process that another test starts has all sockets until its exec, also those closed meanwhile,
	// and kube-vmap may ask an endpoint from this port of the node, for a second.
	err := unix.Bind(s.fd, sockaddr(from))
	for end := time.Now().Add(10 * time.Second); errors.Is(err, unix.EADDRINUSE) && time.Now().Before(end); {
		<-time.After(time.Millisecond)
		err = unix.Bind(s.fd, sockaddr(from))
	}
	return err
}

// Send connects the socket if necessary, and sends. It returns the local address.
func (s *socket) Send(message []byte, deadline time.Time) (netip.AddrPort, error) {
	if !s.connected {
		if err := s.connect(deadline); err != nil {
			return netip.AddrPort{}, fmt.Errorf("connect to %s: %w", s.remote, err)
		}
		s.connected = true
	}
	_, err := s.retry(unix.POLLOUT, deadline, func() (int, error) {
		return 0, unix.Send(s.fd, message, unix.MSG_NOSIGNAL)
	})
	// EPERM means that a filter of the same host dropped the packet. As with other
	// filters, the answer shows whether it also rejects.
	if err != nil && !errors.Is(err, unix.EPERM) {
		return s.local(), fmt.Errorf("send to %s: %w", s.remote, err)
	}
	return s.local(), nil
}

// connect reads ICMP errors from the error queue. The whole lab is one machine, so
// they often arrive while the connect call still holds the socket. The kernel then
// would not report them before it sends SYN again, a second later.
func (s *socket) connect(deadline time.Time) error {
	if !s.stream {
		return unix.Connect(s.fd, sockaddr(s.remote))
	}
	if err := errqueue.Set(s.fd, s.remote.Addr(), 1); err != nil {
		return err
	}
	err := unix.Connect(s.fd, sockaddr(s.remote))
	if err != unix.EINPROGRESS && err != unix.EINTR {
		return err
	}
	if err := s.wait(unix.POLLOUT, deadline); err != nil {
		return err
	}
	if e, ok := errqueue.Next(s.fd); ok {
		return e.Errno
	}
	errno, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if errno != 0 {
		return unix.Errno(errno)
	}
	return errqueue.Set(s.fd, s.remote.Addr(), 0)
}

// Receive returns the next message: a datagram, or a line. It is valid until the
// next call.
func (s *socket) Receive(deadline time.Time) ([]byte, error) {
	for {
		if s.filled == len(s.buf) {
			return nil, errGarbled
		}
		n, err := s.retry(unix.POLLIN, deadline, func() (int, error) { return unix.Read(s.fd, s.buf[s.filled:]) })
		if err == nil && n == 0 && s.stream {
			err = unix.ECONNRESET // the server closed the connection instead of answering
		}
		if err != nil {
			return nil, fmt.Errorf("receive from %s: %w", s.remote, err)
		}
		s.filled += n
		if !s.stream || bytes.HasSuffix(s.buf[:s.filled], []byte("\n")) {
			message := s.buf[:s.filled]
			s.filled = 0
			return message, nil
		}
	}
}

// Close closes the socket and resets its connection.
func (s *socket) Close() error { return unix.Close(s.fd) }

func (s *socket) local() netip.AddrPort {
	sa, err := unix.Getsockname(s.fd)
	if err != nil {
		return netip.AddrPort{}
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}
