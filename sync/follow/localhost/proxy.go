// Package localhost serves TCP node ports on the loopback addresses 127.0.0.1 and ::1
// (KEP-6032), with a proxy between a client on the node and the Service.
//
//	client --> 127.0.0.1:30080 --> Proxy --> 192.0.2.7:30080 --> nftables --> endpoint
//	           ::1:30080                     (the node itself)
//
// # Why a proxy
//
// The kernel cannot translate a connection to 127.0.0.1 and send it to another machine: packets
// from or to loopback addresses must not leave or enter the node. The sysctl route_localnet lifts
// both restrictions for a whole interface: then hosts on the same link can reach programs that
// listen on 127.0.0.1 and expect local clients only (CVE-2020-8558), unless another rule prevents
// it. IPv6 has no such sysctl. A proxy needs neither. In exchange its connections end with this
// process, their data passes through it (by splice(2)), and only TCP is served, since the end of a
// UDP flow cannot be known.
//
// # Where it connects to
//
// It connects to one of the node's own addresses at the node port. So each connection is
// handled like any other from the node to a node port: all endpoints whatever the
// externalTrafficPolicy, hints, scheduler and affinity, with state in the kernel that
// survives a restart. (kube-proxy's proxy of KEP-6032 chooses endpoints itself, and only
// those on the node if externalTrafficPolicy is Local.) The Service sees the node's
// address as the source, so for affinity all clients of the proxy are one.
//
// If the node serves node ports on no other address of the family, the proxy connects to
// the ClusterIP instead, where internalTrafficPolicy applies: if it is Local, only
// endpoints on the node serve.
package localhost

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	stdsync "sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
	"kube-vmap/sync/follow/listen"
)

// Config configures a [Proxy].
type Config struct {
	// Families are those to serve.
	Families [len(model.Families)]bool
	// Recorder, unless it is nil, records ports that cannot be opened.
	Recorder sync.Recorder
	Log      *slog.Logger
}

// A Proxy serves all TCP node ports of some families on localhost. It follows commits: it
// does not accept connections before the rules exist.
type Proxy struct {
	Config
	sockets  *listen.Sockets
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	open     *semaphore.Weighted // connections
	warnings rate.Sometimes      // about the limit
	rejected atomic.Int64        // connections above the limit, since the last warning

	// These are constant, except in tests.
	drainTimeout time.Duration // see copyOneWay
	dialTimeout  time.Duration // for an endpoint to accept
	grace        time.Duration // how long connections last after the context of Run ended

	mu        stdsync.Mutex // guards the following
	routes    map[model.Match]route
	nodeAddrs [len(model.Families)]netip.Addr // of the node; invalid if none is served
}

var _ sync.Follower = (*Proxy)(nil)

// maxConnections limits open connections of all Services together; further ones are reset. Each
// needs two sockets and up to four ends of pipes.
var maxConnections = min(1024, listen.Share(8)/6)

// New returns a Proxy; it does not listen before Run.
func New(c Config) *Proxy {
	return &Proxy{
		Config: c, routes: map[model.Match]route{},
		dial: (&net.Dialer{}).DialContext,
		open: semaphore.NewWeighted(int64(maxConnections)), warnings: rate.Sometimes{Interval: time.Minute},
		drainTimeout: 5 * time.Second, dialTimeout: 10 * time.Second, grace: 5 * time.Second,
		sockets: listen.New(listen.Config{
			Name: "node port on localhost", Reason: model.ProblemLocalhost, Recorder: c.Recorder,
			Field: "spec.ports[].nodePort", Max: listen.Share(16), Log: c.Log,
		}),
	}
}

// String returns the task's name.
func (p *Proxy) String() string { return "node ports on localhost" }

// Listeners returns how many node ports are open in each family, and the failures to open one.
func (p *Proxy) Listeners() [len(model.Families)]listen.Counts { return p.sockets.Counts() }

// Problems returns the Services whose ports cannot be opened.
func (p *Proxy) Problems() []sync.Problem { return p.sockets.Problems() }

// Addresses returns where node ports are served.
func (p *Proxy) Addresses() (out []string) {
	for f, served := range p.Families {
		if served {
			out = append(out, loopback[f].String())
		}
	}
	return out
}

// Run serves until ctx ends, which is not an error. Then it accepts no more connections and gives
// open ones the grace period. When it returns, all connections are closed. It is called once.
func (p *Proxy) Run(ctx context.Context) error {
	connCtx, closeConns := context.WithCancel(context.WithoutCancel(ctx))
	defer closeConns()
	var conns stdsync.WaitGroup
	err := p.sockets.Run(ctx, func(s listen.Socket, l net.Listener) error {
		return p.accept(s, l, func(client *net.TCPConn) {
			conns.Go(func() { p.serve(connCtx, s, client) })
		})
	})
	grace := time.AfterFunc(p.grace, closeConns)
	defer grace.Stop()
	conns.Wait()
	return err
}

// accept accepts connections until the listener is closed, and resets those above the limit.
func (p *Proxy) accept(s listen.Socket, l net.Listener, serve func(*net.TCPConn)) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		client := c.(*net.TCPConn) // of a TCP listener
		if !p.open.TryAcquire(1) {
			reset(client)
			p.rejected.Add(1)
			p.warnings.Do(func() {
				p.Log.Warn("too many connections to node ports on localhost, resetting new ones", "limit", maxConnections,
					"rejected", p.rejected.Swap(0), "service", s.Service.String())
			})
			continue
		}
		serve(client)
	}
}

// serve serves one connection until both ends have closed it or ctx ends.
func (p *Proxy) serve(ctx context.Context, s listen.Socket, client *net.TCPConn) {
	defer p.open.Release(1)
	server, err := p.connect(ctx, s)
	if err != nil {
		p.Log.Debug("cannot connect", "service", s.Service.String(), "address", s.Addr.String(), "err", err)
		reset(client)
		return
	}
	stop := context.AfterFunc(ctx, func() {
		reset(client)
		reset(server)
	})
	defer stop()
	copyBoth(client, server, p.drainTimeout)
}

func (p *Proxy) connect(ctx context.Context, s listen.Socket) (*net.TCPConn, error) {
	to, err := p.target(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.dialTimeout)
	defer cancel()
	c, err := p.dial(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil // of a TCP dialer
}

// copyBoth copies both directions between two connections until both have ended, and closes them. A
// direction that ends first is closed by itself, since its sender may wait for a response.
func copyBoth(a, b *net.TCPConn, drainTimeout time.Duration) {
	var other stdsync.WaitGroup
	other.Go(func() { copyOneWay(a, b, drainTimeout) })
	copyOneWay(b, a, drainTimeout)
	other.Wait()
	_ = a.Close()
	_ = b.Close()
}

// copyOneWay copies from one connection to the other until the end of the data. Both must
// be plain TCP connections, to make the kernel copy (splice(2)).
//
// If from was reset, to is reset, because its data is incomplete. But if to accepts no more data
// (EPIPE: it was closed regularly, or the other direction has seen the reset), the data that to
// had sent must still reach from. Then the data from it is discarded for a while, because the
// kernel resets a connection that is closed with unread data, and drops unsent data.
func copyOneWay(to, from *net.TCPConn, drainTimeout time.Duration) {
	_, err := io.Copy(to, from)
	switch {
	case err == nil:
		_ = to.CloseWrite() // an error means that it is closed
	case errors.Is(err, syscall.EPIPE):
		_ = from.SetReadDeadline(time.Now().Add(drainTimeout)) // fails if it is closed
		_, _ = io.Copy(io.Discard, from)
	default:
		reset(to)
		reset(from)
	}
}

// reset closes a connection with RST, which the other end cannot mistake for the end of the data.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // fails if it is closed
	_ = c.Close()
}

// loopback are the addresses to listen on.
var loopback = [len(model.Families)]netip.Addr{
	model.IPv4: netip.AddrFrom4([4]byte{127, 0, 0, 1}),
	model.IPv6: netip.IPv6Loopback(),
}

// A route is the destination of a node port.
type route struct {
	service   model.ServiceName
	uid       string // of the Service
	clusterIP netip.AddrPort
}

func (p route) socket(m model.Match) listen.Socket {
	return listen.Socket{Service: p.service, UID: p.uid, Addr: netip.AddrPortFrom(loopback[m.Family], m.Port)}
}

// Follow implements [sync.Follower].
func (p *Proxy) Follow(t sync.Committed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodeAddrs = usableNodeAddrs(t.NodeAddrs)
	var closed, opened []listen.Socket
	removed := func(m model.Match, r route) { closed = append(closed, r.socket(m)) }
	follow.Update(p.routes, t, func(f *model.Frontend, before route, known bool) (now route, serves bool) {
		if !p.isServed(f) {
			return now, false
		}
		if known {
			removed(f.Match, before)
		}
		now = route{
			service: f.Service.ServiceName, uid: f.Pool.UID,
			clusterIP: netip.AddrPortFrom(f.Pool.Key.Addr, f.Pool.Key.Port),
		}
		opened = append(opened, now.socket(f.Match))
		return now, true
	}, removed)
	p.sockets.Change(closed, opened)
}

// isServed reports whether a frontend is served. Without endpoints it is not, and
// connections are refused, as at the node's other addresses.
func (p *Proxy) isServed(f *model.Frontend) bool {
	return p.Families[f.Match.Family] && f.Kind == model.KindNodePort && f.Match.Protocol == model.TCP && f.Served()
}

// usableNodeAddrs returns the first address of each family to connect to. It skips
// link-local addresses, and loopback addresses, which would reach this proxy again.
func usableNodeAddrs(addrs []netip.Addr) [len(model.Families)]netip.Addr {
	var hosts [len(model.Families)]netip.Addr
	for _, a := range addrs {
		if host := &hosts[model.FamilyOf(a)]; !host.IsValid() && a.IsGlobalUnicast() {
			*host = a
		}
	}
	return hosts
}

func (p *Proxy) target(s listen.Socket) (netip.AddrPort, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := model.Match{Family: model.FamilyOf(s.Addr.Addr()), Protocol: model.TCP, Port: s.Addr.Port()}
	to, known := p.routes[m]
	if !known || to.service != s.Service {
		return netip.AddrPort{}, errors.New("no Service has this node port") // it was removed meanwhile
	}
	if host := p.nodeAddrs[m.Family]; host.IsValid() {
		return netip.AddrPortFrom(host, m.Port), nil
	}
	return to.clusterIP, nil
}
