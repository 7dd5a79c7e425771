package lab

import (
	"fmt"
	"net"
	"net/netip"
	stdsync "sync"
	"time"

	"kube-vmap/integration/lab/sctp"
	"kube-vmap/model"
)

// conn is a client's socket of any protocol. Send connects on first use. Network
// errors wrap an errno.
type conn interface {
	Send(message []byte, deadline time.Time) (local netip.AddrPort, err error)
	Receive(deadline time.Time) ([]byte, error)
	Close() error
}

func dial(p model.Protocol, from, to netip.AddrPort) (conn, error) {
	if p == model.SCTP {
		return sctp.Dial(from, to)
	}
	return openSocket(p, from, to)
}

// Flow is a client that keeps its protocol, addresses and ports over several
// questions, and so its connection and its connection tracking entry. It must be
// used by one goroutine at a time.
type Flow struct {
	conn   conn
	number uint32
	close  func() error
}

// newFlow opens a flow in the network namespace of the calling thread.
func newFlow(p model.Protocol, from, to netip.AddrPort) (*Flow, error) {
	c, err := dial(p, from, to)
	if err != nil {
		return nil, err
	}
	return &Flow{conn: c, close: c.Close}, nil
}

// Flow opens a flow to a server. Nothing is sent before the first question. An
// invalid address or port 0 in from leaves the choice to the host. The flow ends with
// the host, if it is not closed before.
func (h *Host) Flow(p model.Protocol, from, to netip.AddrPort) (flow *Flow, err error) {
	err = h.Do(func() (err error) { flow, err = newFlow(p, from, to); return err })
	if err != nil {
		return nil, fmt.Errorf("open flow from %s: %w", h.Name, err)
	}
	if flow.close, err = h.cleanup.add(flow.conn.Close); err != nil {
		return nil, fmt.Errorf("open flow from %s: %w", h.Name, err)
	}
	return flow, nil
}

// Ask sends one question and waits for its answer. Refusal, reset and silence are
// outcomes. An error says nothing about the path to the server: no socket could be
// opened, or the answer was malformed.
func (f *Flow) Ask(timeout time.Duration) (Answer, error) {
	start := time.Now()
	answer, err := f.exchange(start.Add(timeout))
	answer.Took = time.Since(start)
	answer.Outcome = Answered
	if err != nil {
		answer.Outcome, answer.Reason, err = classify(err)
	}
	return answer, err
}

func (f *Flow) exchange(deadline time.Time) (answer Answer, err error) {
	f.number++
	if answer.Local, err = f.conn.Send(encodeQuestion(f.number), deadline); err != nil {
		return answer, err
	}
	for {
		message, err := f.conn.Receive(deadline)
		if err != nil {
			return answer, err
		}
		number, by, seen, err := decodeAnswer(message)
		if err != nil {
			return answer, err
		}
		if number == f.number {
			answer.By, answer.Seen = by, seen
			return answer, nil
		}
	}
}

// Close closes the connection. A second call does nothing. It must not be called
// while Ask runs.
func (f *Flow) Close() error { return f.close() }

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
