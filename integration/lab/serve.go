package lab

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sync/errgroup"

	"kube-vmap/model"
)

// Server answers on one port of a host, on its IPv4 and its IPv6 address or on one of
// them. It ends with the host, if it is not closed before.
type Server struct{ close func() error }

// Close closes the server and its connections; its port then refuses. A second call
// does nothing.
func (s *Server) Close() error { return s.close() }

// Serve answers questions over a protocol on a port of the host's two addresses. A
// host that serves SCTP, or did once, refuses other SCTP ports. A host that never did
// is unreachable for SCTP.
func (h *Host) Serve(p model.Protocol, port uint16) (*Server, error) {
	s, err := h.serve(h.listen(p), h.own(port)...)
	if err != nil {
		return nil, fmt.Errorf("serve %d/%s on %s: %w", port, p, h.Name, err)
	}
	return s, nil
}

// ServeAt is [Host.Serve] at one address only, which may be from [Host.AddAddress].
func (h *Host) ServeAt(p model.Protocol, at netip.AddrPort) (*Server, error) {
	s, err := h.serve(h.listen(p), at)
	if err != nil {
		return nil, fmt.Errorf("serve %s/%s on %s: %w", at, p, h.Name, err)
	}
	return s, nil
}

// listen returns a function that listens over a protocol.
func (h *Host) listen(p model.Protocol) func(netip.AddrPort) (running, error) {
	return func(a netip.AddrPort) (running, error) {
		switch p {
		case model.TCP:
			return h.listenTCP(a)
		case model.UDP:
			return h.listenUDP(a)
		case model.SCTP:
			return h.listenSCTP(a)
		}
		return running{}, errors.New("protocol not supported by the lab")
	}
}

// own returns a port at the host's two addresses.
func (h *Host) own(port uint16) []netip.AddrPort {
	return []netip.AddrPort{h.AddrPort(model.IPv4, port), h.AddrPort(model.IPv6, port)}
}

// ServeAll is [Host.Serve] for all protocols.
func (h *Host) ServeAll(port uint16) error {
	for _, p := range model.Protocols {
		if _, err := h.Serve(p, port); err != nil {
			return err
		}
	}
	return nil
}

// running is a server on one address. run returns after stop is called.
type running struct {
	run  func() error
	stop func() error
}

// serve starts a server on all of the addresses, or on none.
func (h *Host) serve(listen func(netip.AddrPort) (running, error), at ...netip.AddrPort) (*Server, error) {
	var parts []running
	err := h.Do(func() error {
		for _, a := range at {
			r, err := listen(a)
			if err != nil {
				return err
			}
			parts = append(parts, r)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, stopAll(parts))
	}
	var group errgroup.Group
	for _, r := range parts {
		group.Go(r.run)
	}
	now, err := h.cleanup.add(func() error { return errors.Join(stopAll(parts), group.Wait()) })
	if err != nil {
		return nil, err
	}
	return &Server{now}, nil
}

func stopAll(parts []running) error {
	var errs []error
	for _, r := range parts {
		errs = append(errs, r.stop())
	}
	return errors.Join(errs...)
}
