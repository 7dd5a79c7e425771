package apitest

import (
	"io"
	"net"
	"syscall"
)

// faults are what the server does wrong.
type faults struct {
	down      error // what who connects gets; nil is the server
	noStreams bool
	codes     map[string]int // of all answers, by resource
}

// Down makes clients of [Server.RoundTrip] find nobody who listens, and cuts
// connections, or ends that.
func (s *Server) Down(down bool) {
	if down {
		s.unreachable(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
	} else {
		s.unreachable(nil)
	}
}

// HangUp makes clients of [Server.RoundTrip] get no answer but the end of their
// connection, as from a load balancer without servers, until [Server.Down] ends
// that.
func (s *Server) HangUp() { s.unreachable(io.EOF) }

func (s *Server) unreachable(err error) {
	s.mu.Lock()
	s.faults.down = err
	s.mu.Unlock()
	if err != nil {
		s.Cut()
	}
}

// Cut ends all watches without a word.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// Compact forgets what happened until now: who watches from then on must list
// again.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = s.revision
	s.history = nil
}

// WithoutStreams makes the server one that does not stream lists.
func (s *Server) WithoutStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.noStreams = true
}

// Answer makes the server answer all requests for a resource with an HTTP status,
// such as 404, or never if it is [Never]; zero ends that.
func (s *Server) Answer(resource string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.codes[resource] = code
}

// Never is the status of an answer that does not come.
const Never = -1
