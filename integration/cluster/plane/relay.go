package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	stdsync "sync"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Relay forwards connections to the API server, and breaks them on request. It runs in this
// process, and can lead from one lab to the plane of another.
type Relay struct {
	plane *Plane
	on    *lab.Host
	at    netip.AddrPort

	mu       stdsync.Mutex
	listener net.Listener // nil while down
	pairs    map[*pair]struct{}
	accepted int
	running  stdsync.WaitGroup
}

// pair is a connection of a client and the one to the API server.
type pair struct{ client, server net.Conn }

// Relay listens on a port of a host's IPv4 address, port 0 being any. It must be
// closed, before the host is.
func (p *Plane) Relay(on *lab.Host, port uint16) (*Relay, error) {
	r := &Relay{plane: p, on: on, at: on.AddrPort(model.IPv4, port), pairs: map[*pair]struct{}{}}
	return r, r.Up()
}

// AddrPort returns where the relay listens.
func (r *Relay) AddrPort() netip.AddrPort { return r.at }

// URL is [Relay.AddrPort] for kubeconfigs.
func (r *Relay) URL() string { return urlOf(r.at) }

// Connections returns the number of connections now, and of all so far.
func (r *Relay) Connections() (now, ever int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pairs), r.accepted
}

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

// Cut resets all connections. Clients may reconnect immediately.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.pairs {
		p.reset()
	}
}

// Down resets all connections; from then on the address refuses.
func (r *Relay) Down() error {
	r.mu.Lock()
	listener := r.listener
	r.listener = nil
	r.mu.Unlock()
	if listener == nil {
		return nil
	}
	err := listener.Close()
	r.Cut()
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
	server, err := r.plane.options.Host.DialContext(context.Background(), "tcp", r.plane.AddrPort().String())
	if err != nil {
		p := pair{client: client}
		p.reset()
		return
	}
	p := &pair{client, server}
	if !r.add(l, p) {
		p.reset()
		return
	}
	var both stdsync.WaitGroup
	both.Go(func() { p.pass(server, client) })
	both.Go(func() { p.pass(client, server) })
	both.Wait()
	p.close()
	r.mu.Lock()
	delete(r.pairs, p)
	r.mu.Unlock()
}

// add records a pair, unless the relay went down meanwhile.
func (r *Relay) add(l net.Listener, p *pair) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener != l {
		return false
	}
	r.pairs[p] = struct{}{}
	r.accepted++
	return true
}

// pass copies one direction. After a regular end the other one may go on, after an error
// neither does.
func (p *pair) pass(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err == nil {
		err = to.(*net.TCPConn).CloseWrite()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		p.reset()
	}
}

func (p *pair) close() {
	for _, c := range []net.Conn{p.client, p.server} {
		_ = c.Close() // it may have been reset
	}
}

// reset closes both connections with a reset.
func (p *pair) reset() {
	for _, c := range []net.Conn{p.client, p.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // of a connection that is gone already
			_ = tcp.Close()
		}
	}
}
