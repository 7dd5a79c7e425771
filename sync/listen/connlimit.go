package listen

import (
	"container/list"
	"net"
	stdsync "sync"
)

// ConnLimit bounds how many connections some listeners have open at a time, all
// together. Who comes when all places are taken gets the one of the connection that
// has been there longest, which is closed: else whoever holds all places, and says
// nothing, would keep out those who ask and go, as health checks do.
type ConnLimit struct {
	max int

	mu   stdsync.Mutex // guards open
	open *list.List    // of *bounded, in the order in which they came
}

// NewConnLimit makes a bound for listeners that shall have so many connections at most,
// at least one.
func NewConnLimit(most int) *ConnLimit { return &ConnLimit{max: max(most, 1), open: list.New()} }

// Listener is a listener whose connections count.
func (b *ConnLimit) Listener(l net.Listener) net.Listener { return limitedListener{l, b} }

// limitedListener is a listener whose connections count.
type limitedListener struct {
	net.Listener
	limit *ConnLimit
}

// Accept implements [net.Listener].
func (c limitedListener) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return c.limit.admit(conn), nil
}

// admit counts a connection, and closes the oldest one if it is one too many.
func (b *ConnLimit) admit(conn net.Conn) net.Conn {
	here := &limitedConn{Conn: conn, limit: b}
	b.mu.Lock()
	var oldest *limitedConn
	if b.open.Len() == b.max {
		oldest = b.open.Remove(b.open.Front()).(*limitedConn)
	}
	here.element = b.open.PushBack(here)
	b.mu.Unlock()
	if oldest != nil {
		_ = oldest.Conn.Close() // nothing is owed to it
	}
	return here
}

// limitedConn is a connection that counts until it is closed.
type limitedConn struct {
	net.Conn
	limit   *ConnLimit
	element *list.Element
}

// Close implements [net.Conn].
func (b *limitedConn) Close() error {
	b.limit.mu.Lock()
	b.limit.open.Remove(b.element) // nothing if it has gone already
	b.limit.mu.Unlock()
	return b.Conn.Close()
}
