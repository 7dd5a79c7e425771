package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"kube-vmap/sync/listen"
)

const (
	// retryPeriod is how long a server waits after an error, as in kube-proxy.
	retryPeriod = 5 * time.Second
	// grace is how long requests may go on when a server ends. Nothing is worth
	// more: whoever replaces this process needs the port.
	grace = time.Second
	// maxConnections is how many clients may be connected at a time if nothing else is
	// said. One more closes the oldest, so that a flood keeps no probe out.
	maxConnections = 512
)

// Config is what a [Server] is told once.
type Config struct {
	Name string // what is served, for logs and errors
	// Address is what to listen on, as host:port. An unspecified IPv4 host stands
	// for both families. Nothing is served without an address.
	Address string
	// Network is tcp, for which empty stands, or unix: then Address is a path, or @ and
	// a name, and requests have the user who asks as their remote address.
	Network string
	// MaxConnections is how many clients may be connected at a time, if it is not zero; on a Unix
	// socket, clients of root.
	MaxConnections int
	// HardFail makes the first error final; Minor makes errors worth no more than a
	// warning.
	HardFail, Minor bool
	Handler         http.Handler
	Log             *slog.Logger
}

// Server is a task that serves HTTP on one address.
type Server struct {
	Config
	listen func(ctx context.Context, network, address string) (net.Listener, error)
	ready  chan struct{}
	told   string // the last error that was logged; empty again once it works
}

// New makes a server; nothing happens before Run.
func New(c Config) *Server {
	c.Network, c.MaxConnections = cmp.Or(c.Network, "tcp"), cmp.Or(c.MaxConnections, maxConnections)
	s := &Server{Config: c, listen: (&net.ListenConfig{}).Listen, ready: make(chan struct{})}
	if c.Network == "unix" {
		s.listen = listenUnix
	}
	return s
}

// String is what the server serves, and where.
func (s *Server) String() string { return s.Name + " server on " + s.Address }

// Ready is closed once the server listens for the first time. Without an address
// that never happens.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx ends, which is no error. Whatever prevents it is tried
// again every 5 s, and logged when it changes, or is returned if it is to be
// final.
func (s *Server) Run(ctx context.Context) error {
	for s.Address != "" {
		err := s.serve(ctx)
		if err == nil {
			return nil
		}
		if s.HardFail {
			return fmt.Errorf("%s: %w", s, err)
		}
		if text := err.Error(); text != s.told {
			s.told = text
			if errors.Is(err, syscall.EADDRINUSE) {
				err = fmt.Errorf("%w: is another Service proxy running on this node?", err)
			}
			level := slog.LevelError
			if s.Minor {
				level = slog.LevelWarn
			}
			s.Log.Log(ctx, level, "cannot serve, trying again", "server", s.String(), "every", retryPeriod.String(), "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryPeriod):
		}
	}
	<-ctx.Done()
	return nil
}

// serve listens and serves until ctx ends, or it cannot.
func (s *Server) serve(ctx context.Context) error {
	listener, err := s.listen(ctx, s.Network, s.Address)
	if err != nil {
		return unlessOver(ctx, err)
	}
	s.listens(listener.Addr())
	server := s.http()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(s.bounded(listener)) }()
	select {
	case err := <-failed:
		return unlessOver(ctx, errors.Join(err, server.Close()))
	case <-ctx.Done():
	}
	inTime, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if server.Shutdown(inTime) != nil {
		_ = server.Close() // takes the connections away from those that are not done
	}
	return unlessOver(ctx, <-failed)
}

// bounded bounds how many are connected.
func (s *Server) bounded(l net.Listener) net.Listener {
	if s.Network == "unix" {
		return sorted{l, listen.NewConnLimit(s.MaxConnections), listen.NewConnLimit(maxOthers)}
	}
	return listen.NewConnLimit(s.MaxConnections).Listener(l)
}

// unlessOver is the error, or nil if it does not matter any more.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// listens tells that the server does.
func (s *Server) listens(addr net.Addr) {
	s.told = ""
	s.Log.Info("serving", "server", s.Name, "address", addr.String())
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
}

// http bounds what a client can take: time, and memory for headers.
func (s *Server) http() *http.Server {
	return &http.Server{
		Handler:           s.Handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
}
