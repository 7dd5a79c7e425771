package localhost

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	stdsync "sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"kube-vmap/model"
	"kube-vmap/sync"
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
