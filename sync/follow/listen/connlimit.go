package listen

import (
	"container/list"
	"errors"
	"log/slog"
	"net"
	stdsync "sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// A ConnLimit limits the open connections of some listeners together. A new connection at
// the limit closes the oldest: otherwise a client that keeps idle connections could keep
// out short ones, such as health checks.
type ConnLimit struct {
	max int

	mu   stdsync.Mutex // guards open
	open *list.List    // of *limitedConn, oldest first
}

// NewConnLimit returns a limit of so many connections, at least one.
func NewConnLimit(limit int) *ConnLimit { return &ConnLimit{max: max(limit, 1), open: list.New()} }

// Listener returns l with its connections limited.
func (b *ConnLimit) Listener(l net.Listener) net.Listener { return limitedListener{l, b} }

// A limitedListener adds its connections to a limit.
type limitedListener struct {
	net.Listener
	limit *ConnLimit
}

// Accept implements [net.Listener].
func (l limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.limit.Admit(conn), nil
}

// Admit adds a connection, and closes the oldest one at the limit.
func (b *ConnLimit) Admit(conn net.Conn) net.Conn {
	here := &limitedConn{Conn: conn, limit: b}
	b.mu.Lock()
	var oldest *limitedConn
	if b.open.Len() == b.max {
		oldest = b.open.Remove(b.open.Front()).(*limitedConn)
	}
	here.element = b.open.PushBack(here)
	b.mu.Unlock()
	if oldest != nil {
		_ = oldest.Conn.Close()
	}
	return here
}

// Exempt has a connection no longer count, so the limit does not close it.
func Exempt(conn net.Conn) {
	if c, limited := conn.(*limitedConn); limited {
		c.limit.mu.Lock()
		defer c.limit.mu.Unlock()
		c.limit.open.Remove(c.element) // does nothing if Admit has removed it
	}
}

// A limitedConn counts until it is closed.
type limitedConn struct {
	net.Conn
	limit   *ConnLimit
	element *list.Element
}

// Close implements [net.Conn].
func (c *limitedConn) Close() error {
	Exempt(c)
	return c.Conn.Close()
}

// maxDescriptors is the soft limit of file descriptors, which Go's runtime has raised to one less
// than the hard limit.
var maxDescriptors = stdsync.OnceValue(func() int {
	limit := unix.Rlimit{Cur: 1024}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // fails for no process's own limit
	return int(min(limit.Cur, 1<<30))
})

// Share returns an n-th part of the file descriptors that the process may have. Users of this
// package have at most 7/8 of all together: the rest is for the proxy itself.
func Share(n int) int { return maxDescriptors() / n }

// exhausted is of the process, whose listeners run out of descriptors together.
var exhausted = rate.Sometimes{Interval: time.Hour}

// A PatientListener waits a second when no descriptor is left. Servers that got the error would log
// each attempt to accept a connection, many times a second, or close the socket.
type PatientListener struct {
	net.Listener
	Log *slog.Logger
}

// Accept implements [net.Listener].
func (l PatientListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if !errors.Is(err, syscall.EMFILE) {
			return conn, err
		}
		exhausted.Do(func() {
			l.Log.Warn("cannot accept, retrying", "address", l.Addr().String(), "limit", maxDescriptors(), "err", err)
		})
		time.Sleep(time.Second)
	}
}
