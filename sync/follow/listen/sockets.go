// Package listen keeps TCP sockets open for Services, on addresses and ports of their
// own, for as long as they are desired.
//
//	Change --> wanted ----> bind, listen ----> serve(socket, listener), each in a goroutine
//	              ^              | failed          | ended although not closed
//	              '---- 1 s to 1 min later --------'
//
// A port that another program uses cannot be known before and is not an error of the proxy: it is
// logged, recorded as an event of the Service and retried with backoff, without affecting other
// sockets. One goroutine opens and closes; none of its calls blocks.
package listen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	stdsync "sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// A Socket listens for a Service. It is comparable. If two Services need the same address
// and port, one gets it, and the other an error meanwhile.
type Socket struct {
	Service model.ServiceName
	UID     string // of the Service
	// Addr is the address and port. An unspecified address means all of its family.
	Addr netip.AddrPort
}

// compare orders by port: a Service gets all of its sockets if not all can be open.
func (s Socket) compare(o Socket) int {
	return cmp.Or(cmp.Compare(s.Addr.Port(), o.Addr.Port()), s.Addr.Compare(o.Addr), s.Service.Compare(o.Service))
}

// Serve serves a listener's connections until the listener is closed; an earlier end is a
// failure, and it returns the reason. It must close what it has accepted.
type Serve func(Socket, net.Listener) error

// Config configures [Sockets].
type Config struct {
	Name   string // the purpose, for logs and events: "health check server"
	Reason string // of the event and problem if listening fails
	Field  string // of the Service that has the port
	Max    int    // how many are open at most; see [Share]
	// Recorder, unless it is nil, records failures.
	Recorder sync.Recorder
	Log      *slog.Logger
}

// Sockets are all sockets with one purpose.
type Sockets struct {
	Config
	listen func(context.Context, Socket) (net.Listener, error)

	mu     stdsync.Mutex   // guards wanted, counts and changes of failed
	wanted map[Socket]bool // changes that Run has not applied: true to open, false to close
	counts [len(model.Families)]Counts
	wake   chan struct{} // has a token if there are changes

	// The following belongs to Run's goroutine.
	open    map[Socket]net.Listener
	failed  map[Socket]*retryState
	ended   chan servedSocket
	errFull error          // of a socket above Max
	full    rate.Sometimes // reports
}

// Counts are the sockets of a family that are open, and the failed attempts to open one.
// A family that the machine lacks has no failures.
type Counts struct{ Open, Failures int }

// A servedSocket is a listener that is no longer served, and why.
type servedSocket struct {
	Socket
	listener net.Listener
	err      error
}

// New returns Sockets; none is opened before Run.
func New(c Config) *Sockets {
	return &Sockets{
		Config: c, listen: open,
		wanted: map[Socket]bool{}, wake: make(chan struct{}, 1),
		open: map[Socket]net.Listener{}, failed: map[Socket]*retryState{}, ended: make(chan servedSocket),
		errFull: fmt.Errorf("%w: %d of the %d that the process may have are for such ports",
			syscall.EMFILE, c.Max, maxDescriptors()),
		full: rate.Sometimes{Interval: time.Hour},
	}
}

// Change closes sockets and opens others; those in both lists stay open. It does not
// block, and may be called from any goroutine, also before Run.
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
	default: // signaled already
	}
}

// Counts returns the counts of each family. It may be called from any goroutine.
func (s *Sockets) Counts() [len(model.Families)]Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Problems returns the Services whose sockets cannot be opened. It may be called from any goroutine.
func (s *Sockets) Problems() (out []sync.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.failed {
		if r.problem.Reason != "" {
			out = append(out, r.problem)
		}
	}
	return out
}

func (s *Sockets) count(socket Socket, open, failures int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.counts[model.FamilyOf(socket.Addr.Addr())]
	c.Open += open
	c.Failures += failures
}

// Run opens and closes sockets until ctx ends, which is not an error. When it returns,
// all are closed and all calls of serve have returned. It is called once.
func (s *Sockets) Run(ctx context.Context, serve Serve) error {
	var serving stdsync.WaitGroup
	defer serving.Wait()
	defer s.closeAll()
	start := func(socket Socket, l net.Listener) {
		serving.Go(func() {
			sync.Send(ctx, s.ended, servedSocket{socket, l, serve(socket, l)})
		})
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			s.applyWanted(ctx, start)
		case e := <-s.ended:
			if s.open[e.Socket] == e.listener { // or else Change has closed it
				s.close(e.Socket)
				s.scheduleRetry(e.Socket, e.err)
			}
		case <-s.nextRetry():
			s.retry(ctx, start)
		}
	}
}

// applyWanted applies changes. It closes first, to let a port move from one Service to
// another.
func (s *Sockets) applyWanted(ctx context.Context, start func(Socket, net.Listener)) {
	s.mu.Lock()
	wanted := s.wanted
	s.wanted = map[Socket]bool{}
	s.mu.Unlock()

	var fresh []Socket
	for socket, open := range wanted {
		switch {
		case !open:
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

func (s *Sockets) tryListen(ctx context.Context, socket Socket, start func(Socket, net.Listener)) {
	if len(s.open) == s.Max {
		s.scheduleRetry(socket, s.errFull)
		return
	}
	l, err := s.listen(ctx, socket)
	if err != nil {
		if ctx.Err() == nil {
			s.scheduleRetry(socket, err)
		}
		return
	}
	l = PatientListener{l, s.Log}
	s.markListening(socket)
	s.open[socket] = l
	s.count(socket, 1, 0)
	start(socket, l)
}

// close removes a socket. If it was open, the port is free on return.
func (s *Sockets) close(socket Socket) {
	if l := s.open[socket]; l != nil {
		_ = l.Close() // a listener has no data to lose
		s.count(socket, -1, 0)
		s.Log.Debug("closed", "server", s.Name, "service", socket.Service.String(), "address", socket.Addr.String())
	}
	delete(s.open, socket)
	s.forget(socket)
}

func (s *Sockets) closeAll() {
	for socket := range s.open {
		s.close(socket)
	}
	for socket := range s.failed {
		s.forget(socket)
	}
}

// networks are Go's names for TCP of one family only (IPV6_V6ONLY).
var networks = [len(model.Families)]string{model.IPv4: "tcp4", model.IPv6: "tcp6"}

func open(ctx context.Context, socket Socket) (net.Listener, error) {
	c := net.ListenConfig{Control: freebind}
	// Multipath TCP, Go's default, has no advantage for connections within a node or
	// with a single request.
	c.SetMultipathTCP(false)
	return c.Listen(ctx, networks[model.FamilyOf(socket.Addr.Addr())], socket.Addr.String())
}

// freebind allows addresses that do not exist yet (ip(7), ipv6(7)): the kernel refuses
// to bind to a new IPv6 address for a second or two, until duplicate address detection
// has finished (RFC 4862, 5.4). Sockets of removed addresses are closed soon.
func freebind(network, _ string, c syscall.RawConn) error {
	level, option := unix.IPPROTO_IP, unix.IP_FREEBIND
	if network == networks[model.IPv6] {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
	}
	var set error
	err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), level, option, 1) })
	return errors.Join(err, set)
}

const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// A retryState is the state of a socket that cannot be opened.
type retryState struct {
	backoff wait.Backoff
	until   time.Time
	problem sync.Problem // the last one, which was reported
}

// scheduleRetry schedules the next attempt. It reports each error once, and a lack of descriptors
// for all sockets together.
func (s *Sockets) scheduleRetry(socket Socket, err error) {
	r := s.failed[socket]
	if r == nil {
		r = &retryState{backoff: sync.NewBackoff(minBackoff, maxBackoff, 0)}
	}
	r.until = time.Now().Add(r.backoff.Step())
	var p sync.Problem
	if errors.Is(err, syscall.EAFNOSUPPORT) {
		// The machine lacks this family. The Service is not wrong.
		s.Log.Debug("address family not supported", "server", s.Name, "service", socket.Service.String(), "err", err)
	} else {
		s.count(socket, 0, 1)
		p = sync.Problem{
			Object: sync.Object{
				Kind: "Service", Namespace: socket.Service.Namespace, Name: socket.Service.Name, UID: socket.UID,
			},
			Reason: s.Reason, Field: fmt.Sprintf("%s: %d", s.Field, socket.Addr.Port()),
			Text: fmt.Sprintf("The %s is not available on %s: %v. It will be retried.", s.Name, socket.Addr, err),
		}
	}
	s.mu.Lock()
	known := r.problem
	s.failed[socket], r.problem = r, p
	s.mu.Unlock()
	report := func() {
		s.Log.Warn("cannot listen, retrying", "server", s.Name, "service", socket.Service.String(),
			"address", socket.Addr.String(), "err", err)
		if s.Recorder != nil {
			s.Recorder.Warn(p.Object, p.Reason, p.Text)
		}
	}
	switch {
	case p == known || p == sync.Problem{}:
	case errors.Is(err, syscall.EMFILE):
		s.full.Do(report)
	default:
		report()
	}
}

// forget forgets that a socket could not be opened.
func (s *Sockets) forget(socket Socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, socket)
}

// markListening records that a socket is open. It logs at a higher level if that failed before.
func (s *Sockets) markListening(socket Socket) {
	log := s.Log.Debug
	if s.failed[socket] != nil {
		log = s.Log.Info
	}
	log("listening", "server", s.Name, "service", socket.Service.String(), "address", socket.Addr.String())
	s.forget(socket)
}

// nextRetry returns a channel that delivers when the next retry is due, or nil.
func (s *Sockets) nextRetry() <-chan time.Time {
	var first time.Time
	for _, r := range s.failed {
		if first.IsZero() || r.until.Before(first) {
			first = r.until
		}
	}
	if first.IsZero() {
		return nil
	}
	return time.After(time.Until(first))
}
