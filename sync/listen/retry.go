package listen

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"kube-vmap/sync"
)

// How long a socket waits that could not be opened: at first, then twice as long
// each time, and at most.
const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// retryState is how a socket waits that cannot be opened.
type retryState struct {
	wait  time.Duration // the last one
	until time.Time
	told  string // the error that people know of
}

// scheduleRetry puts off a socket. People are told once of each error.
func (s *Sockets) scheduleRetry(socket Socket, err error) {
	d := s.failed[socket]
	if d == nil {
		d = &retryState{wait: minBackoff / 2}
		s.failed[socket] = d
	}
	d.wait = min(2*d.wait, maxBackoff)
	d.until = time.Now().Add(d.wait)
	if text := fmt.Sprint(err); text != d.told {
		d.told = text
		s.report(socket, err)
	}
}

// report tells the log, and people where they look for it.
func (s *Sockets) report(socket Socket, err error) {
	if errors.Is(err, syscall.EAFNOSUPPORT) {
		// The machine was started without this family. Nothing is wrong with a Service
		// that could use it elsewhere.
		s.Log.Debug("no such family here", "what", s.Name, "service", socket.Service.String(), "err", err)
		return
	}
	s.Log.Warn("cannot listen, trying again", "what", s.Name, "service", socket.Service.String(),
		"address", socket.Addr.String(), "err", err)
	o := sync.Object{Kind: "Service", Namespace: socket.Service.Namespace, Name: socket.Service.Name, UID: socket.UID}
	s.Recorder.Warn(o, s.Reason, fmt.Sprintf("The %s is not available on %s: %v. It will be tried again.", s.Name, socket.Addr, err))
}

// markListening notes that a socket is open, and tells those who know that it was not.
func (s *Sockets) markListening(socket Socket) {
	log := s.Log.Debug
	if s.failed[socket] != nil {
		log = s.Log.Info
	}
	log("listening", "what", s.Name, "service", socket.Service.String(), "address", socket.Addr.String())
	delete(s.failed, socket)
}

// nextRetry delivers when the first socket has waited long enough; it is nil if none
// waits.
func (s *Sockets) nextRetry() <-chan time.Time {
	var first time.Time
	for _, d := range s.failed {
		if first.IsZero() || d.until.Before(first) {
			first = d.until
		}
	}
	if first.IsZero() {
		return nil
	}
	return time.After(time.Until(first))
}
