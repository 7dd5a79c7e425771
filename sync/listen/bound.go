package listen

import (
	"container/list"
	"net"
	stdsync "sync"
)

// Bound bounds how many connections some listeners have open at a time, all
// together. Who comes when all places are taken gets the one of the connection that
// has been there longest, which is closed: else whoever holds all places, and says
// nothing, would keep out those who ask and go, as health checks do.
type Bound struct {
	most int

	mu   stdsync.Mutex // guards open
	open *list.List    // of *bounded, in the order in which they came
}

// NewBound makes a bound for listeners that shall have so many connections at most,
// at least one.
func NewBound(most int) *Bound { return &Bound{most: max(most, 1), open: list.New()} }

// Listener is a listener whose connections count.
func (b *Bound) Listener(l net.Listener) net.Listener { return counted{l, b} }

// counted is a listener whose connections count.
type counted struct {
	net.Listener
	bound *Bound
}

// Accept implements [net.Listener].
func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return c.bound.admit(conn), nil
}

// admit counts a connection, and closes the oldest one if it is one too many.
func (b *Bound) admit(conn net.Conn) net.Conn {
	here := &bounded{Conn: conn, bound: b}
	b.mu.Lock()
	var oldest *bounded
	if b.open.Len() == b.most {
		oldest = b.open.Remove(b.open.Front()).(*bounded)
	}
	here.place = b.open.PushBack(here)
	b.mu.Unlock()
	if oldest != nil {
		_ = oldest.Conn.Close() // nothing is owed to it
	}
	return here
}

// bounded is a connection that counts until it is closed.
type bounded struct {
	net.Conn
	bound *Bound
	place *list.Element
}

// Close implements [net.Conn].
func (b *bounded) Close() error {
	b.bound.mu.Lock()
	b.bound.open.Remove(b.place) // nothing if it has gone already
	b.bound.mu.Unlock()
	return b.Conn.Close()
}
