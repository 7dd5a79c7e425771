// Package serve has the proxy's HTTP servers: two with kube-proxy's ports, paths and
// answers, and one of our own on a Unix socket.
//
//	probes ----> Server 0.0.0.0:10256 ----> health.Health (/healthz, /livez, /readyz)
//	scrapers --> Server 127.0.0.1:10249 --> Metrics ------> /metrics, /metrics/slis
//	people -------------------------------'    `----> /healthz, /proxyMode, /configz, /flagz, /statusz,
//	                                                        with profiling /debug/pprof/, /debug/flags
//	root ----> Server @kube-vmap -----------> NewStatus ----> /status and the texts of package nodestatus
//
// As in kube-proxy, there is neither TLS nor authentication: every client that reaches a
// server may read everything it serves, except that the Unix socket answers root alone. So
// all is read-only, except the log level with profiling; nothing that is sent is kept, or
// read beyond a small limit; and a slow client loses its connection.
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

	"kube-vmap/sync/follow/listen"
)

const (
	// retryPeriod is how long a server waits after an error, as in kube-proxy.
	retryPeriod = 5 * time.Second
	// shutdownTimeout is how long requests may continue when a server ends. The process
	// that replaces this one needs the port.
	shutdownTimeout = time.Second
)

// maxConnections is the default of Config.MaxConnections. One more closes the oldest:
// a flood of connections does not block probes.
var maxConnections = min(512, listen.Share(32))

// Config configures a [Server].
type Config struct {
	Name string // what is served, for logs and errors
	// Address is host:port. An unspecified IPv4 host means both families. An empty
	// address serves nothing.
	Address string
	// Network is tcp (the default) or unix: then Address is a path, or @ and a name, and
	// the remote address of requests is the client's user.
	Network string
	// MaxConnections is how many clients may be connected at a time; on a Unix socket,
	// clients of root.
	MaxConnections int
	// HardFail makes the first error final; Minor logs errors as warnings.
	HardFail, Minor bool
	Handler         http.Handler
	Log             *slog.Logger
}

// Server is a task that serves HTTP on one address.
type Server struct {
	Config
	listen func(ctx context.Context, network, address string) (net.Listener, error)
	logged string // the last error; empty after a success
}

// New returns a server, which listens in Run.
func New(c Config) *Server {
	c.Network, c.MaxConnections = cmp.Or(c.Network, "tcp"), cmp.Or(c.MaxConnections, maxConnections)
	s := &Server{Config: c, listen: (&net.ListenConfig{}).Listen}
	if c.Network == "unix" {
		s.listen = listenUnix
	}
	return s
}

// String returns the server's name and address.
func (s *Server) String() string { return s.Name + " server on " + s.Address }

// Run serves until ctx ends, which is no error. After an error it retries every 5 s, and
// logs the error when it changes; with HardFail it returns the error.
func (s *Server) Run(ctx context.Context) error {
	for s.Address != "" {
		err := s.serve(ctx)
		if err == nil {
			return nil
		}
		if s.HardFail {
			return fmt.Errorf("%s: %w", s, err)
		}
		if text := err.Error(); text != s.logged {
			s.logged = text
			if errors.Is(err, syscall.EADDRINUSE) {
				err = fmt.Errorf("%w: is another Service proxy running on this node?", err)
			}
			level := slog.LevelError
			if s.Minor {
				level = slog.LevelWarn
			}
			s.Log.Log(ctx, level, "cannot serve, retrying", "server", s.String(), "retry_in", retryPeriod.String(), "err", err)
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

// serve listens and serves until ctx ends, or an error.
func (s *Server) serve(ctx context.Context) error {
	listener, err := s.listen(ctx, s.Network, s.Address)
	if err != nil {
		return unlessDone(ctx, err)
	}
	s.logged = ""
	s.Log.Info("serving", "server", s.Name, "address", listener.Addr().String())
	server := s.httpServer()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(s.limitConnections(listener)) }()
	select {
	case err := <-failed:
		return unlessDone(ctx, errors.Join(err, server.Close()))
	case <-ctx.Done():
	}
	timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if server.Shutdown(timeout) != nil {
		_ = server.Close() // closes the remaining connections
	}
	return unlessDone(ctx, <-failed)
}

func (s *Server) limitConnections(l net.Listener) net.Listener {
	l = listen.PatientListener{Listener: l, Log: s.Log}
	if s.Network == "unix" {
		return byUser{l, listen.NewConnLimit(s.MaxConnections), listen.NewConnLimit(maxOthers)}
	}
	return listen.NewConnLimit(s.MaxConnections).Listener(l)
}

func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func (s *Server) httpServer() *http.Server {
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
