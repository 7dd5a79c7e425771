package plane

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	stdsync "sync"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Relay forwards connections to the API server, and refuses them on request. It runs in this
// process, and can lead from one lab to the plane of another.
type Relay struct {
	plane *Plane
	on    *lab.Host
	at    netip.AddrPort

	mu       stdsync.Mutex
	listener net.Listener // nil while down
	conns    map[net.Conn]struct{}
	running  stdsync.WaitGroup
}

// Relay listens on a port of a host's IPv4 address, port 0 being any. It must be
// closed, before the host is.
func (p *Plane) Relay(on *lab.Host, port uint16) (*Relay, error) {
	r := &Relay{plane: p, on: on, at: on.AddrPort(model.IPv4, port), conns: map[net.Conn]struct{}{}}
	return r, r.Up()
}

// URL is where the relay listens, for kubeconfigs.
func (r *Relay) URL() string { return urlOf(r.at) }

// Up listens, after [Relay.Down], at the same address as before.
func (r *Relay) Up() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener != nil {
		return nil
	}
	err := r.on.Do(func() (err error) {
		var c net.ListenConfig
		r.listener, err = c.Listen(context.Background(), "tcp", r.at.String())
		return err
	})
	if err != nil {
		r.listener = nil
		return fmt.Errorf("listen for connections to the API server: %w", err)
	}
	r.at = netip.MustParseAddrPort(r.listener.Addr().String())
	listener := r.listener
	r.running.Go(func() { r.accept(listener) })
	return nil
}

// Down resets all connections; from then on the address refuses.
func (r *Relay) Down() error {
	r.mu.Lock()
	listener := r.listener
	r.listener = nil
	for c := range r.conns {
		_ = c.(*net.TCPConn).SetLinger(0) // it may be closed already
		_ = c.Close()
	}
	r.mu.Unlock()
	if listener == nil {
		return nil
	}
	err := listener.Close()
	r.running.Wait()
	return err
}

// Close is [Relay.Down], and releases the address.
func (r *Relay) Close() error { return r.Down() }

func (r *Relay) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // closed
		}
		r.running.Go(func() { r.serve(l, client) })
	}
}

// serve forwards data in both directions, until one of them ends. If the API server is
// unreachable, it closes the client's connection.
func (r *Relay) serve(l net.Listener, client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := r.plane.options.Host.DialContext(context.Background(), "tcp", r.plane.AddrPort().String())
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	r.mu.Lock()
	up := r.listener == l
	if up {
		r.conns[client], r.conns[server] = struct{}{}, struct{}{}
	}
	r.mu.Unlock()
	if !up {
		return
	}
	var both stdsync.WaitGroup
	for to, from := range map[net.Conn]net.Conn{server: client, client: server} {
		both.Go(func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
			_ = from.Close()
		})
	}
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, client)
	delete(r.conns, server)
}
