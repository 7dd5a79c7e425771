package apitest

// faults are how the server fails.
type faults struct {
	down, noStreams, noEnds, unresponsive bool
	status                                map[string]int // of all responses, by resource
}

// SetDown makes connections of [Server.RoundTrip] be refused, and closes existing ones,
// or ends that.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	s.faults.down = down
	s.mu.Unlock()
	if down {
		s.EndWatches()
	}
}

// EndWatches ends all watches without an error.
func (s *Server) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.endWatches)
	s.endWatches = make(chan struct{})
}

// Compact forgets the history, and watches from an earlier revision must list again.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = s.revision
	s.history = nil
}

// DisableStreamedLists makes the server refuse to stream lists.
func (s *Server) DisableStreamedLists() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.noStreams = true
}

// SetUnresponsive makes watches receive nothing, not even their end; those stay so when that ends.
func (s *Server) SetUnresponsive(unresponsive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.unresponsive = unresponsive
}

func (s *Server) isUnresponsive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.unresponsive
}

// LoseEndOfLists makes streamed lists go on without the bookmark that ends them, as some proxies do.
func (s *Server) LoseEndOfLists() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.noEnds = true
}

// SetStatus makes all requests for a resource fail with an HTTP status, or hang if it is
// [NoResponse]; zero ends that.
func (s *Server) SetStatus(resource string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.status[resource] = code
}

// NoResponse is the status of a request that hangs.
const NoResponse = -1
