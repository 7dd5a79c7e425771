package apitest

import (
	"io"
	"net"
	"syscall"
)

// faults are what the server does wrong.
type faults struct {
	connectErr error // what who connects gets; nil is the server
	noStreams  bool
	status     map[string]int // of all answers, by resource
}

// SetDown makes clients of [Server.RoundTrip] find nobody who listens, and cuts
// connections, or ends that.
func (s *Server) SetDown(down bool) {
	if down {
		s.setConnectErr(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
	} else {
		s.setConnectErr(nil)
	}
}

// CloseConnections makes clients of [Server.RoundTrip] get no answer but the end of their
// connection, as from a load balancer without servers, until [Server.SetDown] ends
// that.
func (s *Server) CloseConnections() { s.setConnectErr(io.EOF) }

func (s *Server) setConnectErr(err error) {
	s.mu.Lock()
	s.faults.connectErr = err
	s.mu.Unlock()
	if err != nil {
		s.EndWatches()
	}
}

// EndWatches ends all watches without a word.
func (s *Server) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.endWatches)
	s.endWatches = make(chan struct{})
}

// Compact forgets what happened until now: who watches from then on must list
// again.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = s.revision
	s.history = nil
}

// DisableStreamedLists makes the server one that does not stream lists.
func (s *Server) DisableStreamedLists() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.noStreams = true
}

// SetStatus makes the server answer all requests for a resource with an HTTP status,
// such as 404, or never if it is [NoResponse]; zero ends that.
func (s *Server) SetStatus(resource string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.status[resource] = code
}

// NoResponse is the status of an answer that does not come.
const NoResponse = -1
