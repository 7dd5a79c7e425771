package lab

import (
	"errors"
	"net"
	"net/netip"

	"kube-vmap/integration/lab/sctp"
)

func (h *Host) listenTCP(a netip.AddrPort) (running, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(a))
	if err != nil {
		return running{}, err
	}
	return h.serveTCP(l), nil
}

func (h *Host) serveTCP(l net.Listener) running {
	conns := &connections{}
	return running{
		run: func() error {
			return untilClosed(func() error {
				c, err := l.Accept()
				if err == nil {
					conns.serve(c, h.answerAll)
				}
				return err
			})
		},
		stop: func() error { err := l.Close(); conns.close(); return err },
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

func (h *Host) listenUDP(a netip.AddrPort) (running, error) {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(a))
	if err != nil {
		return running{}, err
	}
	buf := make([]byte, 64)
	return running{
		run: func() error {
			return untilClosed(func() error {
				n, from, err := c.ReadFromUDPAddrPort(buf)
				if err != nil {
					return err
				}
				// An answer that cannot be sent is like a lost packet.
				_, _ = c.WriteToUDPAddrPort(encodeAnswer(buf[:n], h.Name, from), from)
				return nil
			})
		},
		stop: c.Close,
	}, nil
}

func (h *Host) listenSCTP(a netip.AddrPort) (running, error) {
	l, err := h.sctpListener(a.Addr())
	if err != nil {
		return running{}, err
	}
	l.Open(a.Port(), func(peer netip.AddrPort, question []byte) []byte {
		return encodeAnswer(question, h.Name, peer)
	})
	return running{
		run:  func() error { return nil }, // the listener serves all ports
		stop: func() error { l.Refuse(a.Port()); return nil },
	}, nil
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
	done := make(chan error, 1)
	go func() { done <- l.Serve() }()
	if _, err := h.cleanup.add(func() error { return errors.Join(l.Close(), <-done) }); err != nil {
		return nil, err
	}
	h.sctp[a] = l
	return l, nil
}

// untilClosed repeats a step until its socket is closed.
func untilClosed(step func() error) error {
	for {
		if err := step(); err != nil {
			return ignoreClosed(err)
		}
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
