package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab/sctp"
)

// inBackground runs a server, and returns a function that stops it and waits for its end.
func inBackground(serve, stop func() error) func() error {
	done := make(chan error, 1)
	go func() { done <- ignoreClosed(serve()) }()
	return func() error { return errors.Join(stop(), <-done) }
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (h *Host) listenTCP(a netip.AddrPort) (stop func() error, err error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(a))
	if err != nil {
		return nil, err
	}
	conns := &connections{}
	return inBackground(
		func() error { return h.accept(l, conns) },
		func() error { err := l.Close(); conns.close(); return err },
	), nil
}

// accept answers on a listener until it is closed.
func (h *Host) accept(l net.Listener, conns *connections) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		conns.serve(c, h.answerAll)
	}
}

// answerAll answers the questions of a connection until the client closes it.
func (h *Host) answerAll(c net.Conn) {
	seen := c.RemoteAddr().(*net.TCPAddr).AddrPort()
	buf := make([]byte, 64)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if _, err := c.Write(encodeAnswer(buf[:n], h.Name, seen)); err != nil {
			return
		}
	}
}

func (h *Host) listenUDP(a netip.AddrPort) (stop func() error, err error) {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(a))
	if err != nil {
		return nil, err
	}
	return inBackground(func() error {
		for buf := make([]byte, 64); ; {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return err
			}
			// An answer that cannot be sent is like a lost packet.
			_, _ = c.WriteToUDPAddrPort(encodeAnswer(buf[:n], h.Name, from), from)
		}
	}, c.Close), nil
}

func (h *Host) listenSCTP(a netip.AddrPort) (stop func() error, err error) {
	l, err := h.sctpListener(a.Addr())
	if err != nil {
		return nil, err
	}
	l.Open(a.Port(), func(peer netip.AddrPort, question []byte) []byte {
		return encodeAnswer(question, h.Name, peer)
	})
	return func() error { l.Refuse(a.Port()); return nil }, nil // the listener serves all ports
}

// sctpListener returns the only listener of an address. It remains when its ports
// close, to refuse them. The calling thread must be in the host's namespace.
func (h *Host) sctpListener(a netip.Addr) (*sctp.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.sctp[a]; l != nil {
		return l, nil
	}
	l, err := sctp.Listen(a)
	if err != nil {
		return nil, err
	}
	if _, err := h.cleanup.add(inBackground(l.Serve, l.Close)); err != nil {
		return nil, err
	}
	h.sctp[a] = l
	return l, nil
}

// Backlog is a TCP port whose connections no one accepts: the kernel completes handshakes
// until the backlog is full. Another process can inherit the socket, and accept.
type Backlog struct{ *net.TCPListener }

// Backlog listens for TCP on a port of all addresses of the host. It ends with the host.
func (h *Host) Backlog(port uint16) (b Backlog, err error) {
	err = h.Do(func() error {
		var c net.ListenConfig
		l, err := c.Listen(context.Background(), "tcp", fmt.Sprintf(":%d", port))
		if err == nil {
			b.TCPListener = l.(*net.TCPListener)
		}
		return err
	})
	if err == nil {
		_, err = h.cleanup.add(b.Close)
	}
	if err != nil {
		return b, fmt.Errorf("listen on port %d of %s: %w", port, h.Name, err)
	}
	return b, nil
}

// Shrink makes the backlog full as soon as one connection is in it. The kernel then drops
// every SYN, as it does when a process has accepted nothing for a while.
func (b Backlog) Shrink() error {
	raw, err := b.SyscallConn()
	if err != nil {
		return err
	}
	control := raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), 0) })
	return errors.Join(control, err)
}

// AnswerOn answers questions on a listener as a host of this name, until it is closed: for a
// process that inherited the listener.
func AnswerOn(l net.Listener, name string) error {
	return ignoreClosed((&Host{Name: name}).accept(l, &connections{}))
}
