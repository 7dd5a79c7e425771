package listen

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// Socket is one that listens for a Service. It is comparable. Those of two
// Services may ask for the same address and port: one has it, and the other gets
// an error for as long.
type Socket struct {
	Service model.ServiceName
	UID     string // of the Service
	// Addr is where it listens. An unspecified address stands for all of its
	// family, and for none of the other.
	Addr netip.AddrPort
}

// compare orders sockets by address and port, then Service.
func (s Socket) compare(o Socket) int {
	return cmp.Or(s.Addr.Compare(o.Addr), s.Service.Compare(o.Service))
}

// Serve serves what comes in at a listener, until the listener is closed. It may
// take its time to come to an end then, but nobody else closes what it has
// accepted. The error tells why it ended if the listener was not closed.
type Serve func(Socket, net.Listener) error

// Config is what [Sockets] are told once.
type Config struct {
	Name   string // what is served, for logs and events: "health check server"
	Reason string // of the event when that is not possible
	// Recorder is told; nil means nobody is.
	Recorder sync.Recorder
	Log      *slog.Logger
}

// Sockets are all that listen for one purpose.
type Sockets struct {
	Config
	listen func(context.Context, Socket) (net.Listener, error)

	mu     stdsync.Mutex   // guards asked; held for no longer than it takes to change it
	wanted map[Socket]bool // since Run last looked: to be open, or not any more
	wake   chan struct{}   // holds one if there is something in asked

	// What follows belongs to the goroutine of Run.
	open   map[Socket]net.Listener
	failed map[Socket]*retryState
	ended  chan servedSocket
}

// servedSocket tells that nobody serves a listener any more.
type servedSocket struct {
	Socket
	listener net.Listener
	err      error
}

// New makes Sockets; none is opened before Run.
func New(c Config) *Sockets {
	if c.Recorder == nil {
		c.Recorder = nopRecorder{}
	}
	return &Sockets{
		Config: c, listen: open,
		wanted: map[Socket]bool{}, wake: make(chan struct{}, 1),
		open: map[Socket]net.Listener{}, failed: map[Socket]*retryState{}, ended: make(chan servedSocket),
	}
}

// Change closes sockets and opens others. What is in both stays as it is. It does
// not wait for any of that, and may be called from any goroutine, also before Run.
func (s *Sockets) Change(closed, opened []Socket) {
	if len(closed)+len(opened) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, socket := range closed {
		s.wanted[socket] = false
	}
	for _, socket := range opened {
		s.wanted[socket] = true
	}
	select {
	case s.wake <- struct{}{}:
	default: // Run has not looked yet
	}
}

// Run opens and closes sockets until ctx ends, which is no error. When it returns,
// all are closed and nobody serves any more. It is called once.
func (s *Sockets) Run(ctx context.Context, serve Serve) error {
	var serving stdsync.WaitGroup
	defer serving.Wait()
	defer s.closeAll()
	start := func(socket Socket, l net.Listener) {
		serving.Go(func() {
			err := serve(socket, l)
			select {
			case s.ended <- servedSocket{socket, l, err}:
			case <-ctx.Done():
			}
		})
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			s.applyWanted(ctx, start)
		case e := <-s.ended:
			s.handleEnd(e)
		case <-s.nextRetry():
			s.retry(ctx, start)
		}
	}
}

// applyWanted does what was asked for. It closes first, so that a port can go from one
// Service to another.
func (s *Sockets) applyWanted(ctx context.Context, start func(Socket, net.Listener)) {
	s.mu.Lock()
	asked := s.wanted
	s.wanted = map[Socket]bool{}
	s.mu.Unlock()

	var fresh []Socket
	for socket, wanted := range asked {
		switch {
		case !wanted:
			s.close(socket)
		case s.open[socket] == nil && s.failed[socket] == nil:
			fresh = append(fresh, socket)
		}
	}
	slices.SortFunc(fresh, Socket.compare)
	for _, socket := range fresh {
		s.tryListen(ctx, socket, start)
	}
}

// retry tries again what is due.
func (s *Sockets) retry(ctx context.Context, start func(Socket, net.Listener)) {
	var due []Socket
	for socket, d := range s.failed {
		if time.Until(d.until) <= 0 {
			due = append(due, socket)
		}
	}
	slices.SortFunc(due, Socket.compare)
	for _, socket := range due {
		s.tryListen(ctx, socket, start)
	}
}

// tryListen opens a socket, or puts it off.
func (s *Sockets) tryListen(ctx context.Context, socket Socket, start func(Socket, net.Listener)) {
	l, err := s.listen(ctx, socket)
	if err != nil {
		if ctx.Err() == nil {
			s.scheduleRetry(socket, err)
		}
		return
	}
	s.markListening(socket)
	s.open[socket] = l
	start(socket, l)
}

// handleEnd puts off a socket that is not served any more although it should be.
func (s *Sockets) handleEnd(e servedSocket) {
	if s.open[e.Socket] != e.listener {
		return // it was closed, as everybody wanted
	}
	s.close(e.Socket)
	s.scheduleRetry(e.Socket, e.err)
}

// close forgets a socket. If it was open, the port is free on return.
func (s *Sockets) close(socket Socket) {
	if l := s.open[socket]; l != nil {
		_ = l.Close() // nothing was written to it
		s.Log.Debug("closed", "what", s.Name, "service", socket.Service.String(), "address", socket.Addr.String())
	}
	delete(s.open, socket)
	delete(s.failed, socket)
}

// closeAll closes all.
func (s *Sockets) closeAll() {
	for socket := range s.open {
		s.close(socket)
	}
}

// nopRecorder is the recorder where none was given.
type nopRecorder struct{}

func (nopRecorder) Warn(sync.Object, string, string) {}
