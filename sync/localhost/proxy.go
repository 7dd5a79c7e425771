package localhost

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/listen"
)

// Config is what a [Proxy] is told once. What is zero gets its default.
type Config struct {
	// MaxConnections is how many may be open at a time, of all Services together;
	// 1024 by default. One needs two sockets and up to four ends of pipes. Any more
	// is reset.
	MaxConnections int
	// DialTimeout is how long an endpoint may take to accept a connection; 10 s by
	// default.
	DialTimeout time.Duration
	// Grace is how long connections may go on when the relay ends; 5 s by default.
	Grace time.Duration
	// Recorder is told of ports that cannot be opened; nil means nobody is.
	Recorder sync.Recorder
	Log      *slog.Logger
}

// Proxy serves all TCP node ports on localhost. It follows what the kernel has
// taken, so that nobody connects before there are rules.
type Proxy struct {
	Config
	sockets *listen.Sockets
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	limit   connLimit
	// drainTimeout is how long what nobody takes any more is thrown away.
	drainTimeout time.Duration

	mu        stdsync.Mutex // guards what follows
	routes    map[model.Match]route
	nodeAddrs [len(model.Families)]netip.Addr // of the node; invalid if none is served
}

var _ sync.Follower = (*Proxy)(nil)

// New makes a relay; nothing listens before Run.
func New(c Config) *Proxy {
	c.MaxConnections = cmp.Or(c.MaxConnections, 1024)
	c.DialTimeout = cmp.Or(c.DialTimeout, 10*time.Second)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	return &Proxy{
		Config: c, routes: map[model.Match]route{},
		dial:  (&net.Dialer{}).DialContext,
		limit: connLimit{max: c.MaxConnections, log: c.Log}, drainTimeout: 5 * time.Second,
		sockets: listen.New(listen.Config{
			Name: "node port on localhost", Reason: sync.ReasonLocalhost, Recorder: c.Recorder, Log: c.Log,
		}),
	}
}

// String names the task.
func (r *Proxy) String() string { return "node ports on localhost" }

// Run serves until ctx ends, which is no error: then nobody can connect any more,
// and those who have may go on for a while. When it returns, all connections are
// closed. It is called once.
func (r *Proxy) Run(ctx context.Context) error {
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var relayed stdsync.WaitGroup
	err := r.sockets.Run(ctx, func(s listen.Socket, l net.Listener) error {
		return r.accept(s, l, func(client *net.TCPConn) {
			relayed.Go(func() { r.serve(life, s, client) })
		})
	})
	late := time.AfterFunc(r.Grace, cut)
	defer late.Stop()
	relayed.Wait()
	return err
}

// accept takes connections until the listener is closed, and passes on those that
// there is a place for.
func (r *Proxy) accept(s listen.Socket, l net.Listener, relay func(*net.TCPConn)) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		client := c.(*net.TCPConn) // of a TCP listener
		if !r.limit.acquire(s) {
			reset(client)
			continue
		}
		relay(client)
	}
}

// serve serves one connection until both ends have closed it or life ends.
func (r *Proxy) serve(life context.Context, s listen.Socket, client *net.TCPConn) {
	defer r.limit.release()
	server, err := r.connect(life, s)
	if err != nil {
		r.Log.Debug("not connected", "service", s.Service.String(), "address", s.Addr.String(), "err", err)
		reset(client)
		return
	}
	over := context.AfterFunc(life, func() {
		reset(client)
		reset(server)
	})
	defer over()
	copyBoth(client, server, r.drainTimeout)
}

// connect connects to the Service that a socket is for.
func (r *Proxy) connect(life context.Context, s listen.Socket) (*net.TCPConn, error) {
	to, err := r.target(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(life, r.DialTimeout)
	defer cancel()
	c, err := r.dial(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil // of a TCP dialer
}
