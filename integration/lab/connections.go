package lab

import (
	"net"
	stdsync "sync"
)

// connections are the connections that a server accepted. The zero value is ready.
type connections struct {
	mu     stdsync.Mutex
	open   map[net.Conn]struct{}
	closed bool
	wg     stdsync.WaitGroup
}

// serve calls handle in a goroutine and closes c afterwards, or on close.
func (s *connections) serve(c net.Conn, handle func(net.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return
	}
	if s.open == nil {
		s.open = make(map[net.Conn]struct{})
	}
	s.open[c] = struct{}{}
	s.wg.Go(func() {
		defer s.forget(c)
		handle(c)
	})
}

func (s *connections) forget(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	_ = c.Close()
}

// close closes all connections and waits for their handlers. Later connections are
// closed immediately.
func (s *connections) close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}
