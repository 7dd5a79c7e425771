package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

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
	return h.serve(p, h.AddrPort(model.IPv4, port), h.AddrPort(model.IPv6, port))
}

// ServeAt is [Host.Serve] at one address only, which may be from [Host.AddAddress].
func (h *Host) ServeAt(p model.Protocol, at netip.AddrPort) (*Server, error) { return h.serve(p, at) }

// ServeAll is [Host.Serve] for all protocols.
func (h *Host) ServeAll(port uint16) error {
	for _, p := range model.Protocols {
		if _, err := h.Serve(p, port); err != nil {
			return err
		}
	}
	return nil
}

// serve starts a server on all of the addresses, or on none.
func (h *Host) serve(p model.Protocol, at ...netip.AddrPort) (*Server, error) {
	listen := map[model.Protocol]func(netip.AddrPort) (stop func() error, err error){
		model.TCP: h.listenTCP, model.UDP: h.listenUDP, model.SCTP: h.listenSCTP,
	}[p]
	var stops []func() error
	err := h.Do(func() error {
		for _, a := range at {
			stop, err := listen(a)
			if err != nil {
				return err
			}
			stops = append(stops, stop)
		}
		return nil
	})
	stopAll := func() error {
		var errs []error
		for _, stop := range stops {
			errs = append(errs, stop())
		}
		return errors.Join(errs...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve %s/%s on %s: %w", at, p, h.Name, err), stopAll())
	}
	now, err := h.cleanup.add(stopAll)
	return &Server{now}, err
}

// DialContext is net.Dialer.DialContext in the host's namespace. The address must be
// numeric: names would be resolved outside of it.
func (h *Host) DialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = h.Do(func() (err error) {
		var d net.Dialer
		c, err = d.DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// Get fetches a URL with a numeric address over a new connection and returns the
// body, whatever the status.
func (h *Host) Get(url string, timeout time.Duration) (string, error) {
	client := http.Client{
		Transport: &http.Transport{DialContext: h.DialContext, DisableKeepAlives: true},
		Timeout:   timeout,
	}
	response, err := client.Get(url)
	if err != nil {
		return "", fmt.Errorf("from %s: %w", h.Name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("from %s: get %s: %w", h.Name, url, err)
	}
	return string(body), nil
}
