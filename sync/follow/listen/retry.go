package listen

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/sync"
)

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
