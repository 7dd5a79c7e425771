package lab

import (
	"errors"
	"net"
	"net/netip"

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
