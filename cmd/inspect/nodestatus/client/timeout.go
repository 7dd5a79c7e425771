package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// ErrUnresponsive is returned if a process holds the socket but does not respond: it is
// stopped, or gets no processor time.
var ErrUnresponsive = errors.New("no response")

const (
	// defaultAckTimeout is how long a process may take to acknowledge a request, see
	// [AckRequests]. That takes it milliseconds, whatever else it does.
	defaultAckTimeout = 5 * time.Second
	// idleTimeout is how long its answer may then pause: other requests may come first, and a
	// loop that programs everything answers afterwards.
	idleTimeout = 30 * time.Second
)

// timedConn is a connection whose read timeout depends on whether the process has responded.
// Its users read one at a time.
type timedConn struct {
	net.Conn

	acknowledged bool
}

// newTimedConn returns the connection c with timeouts; it closes c on error.
func newTimedConn(c net.Conn, ackTimeout time.Duration) (net.Conn, error) {
	if err := c.SetDeadline(time.Now().Add(ackTimeout)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &timedConn{Conn: c}, nil
}

// Read implements [io.Reader]. The timeout of the first byte began with the connection.
func (p *timedConn) Read(b []byte) (int, error) {
	if p.acknowledged {
		if err := p.SetDeadline(time.Now().Add(idleTimeout)); err != nil {
			return 0, err
		}
	}
	n, err := p.Conn.Read(b)
	switch late := errors.Is(err, os.ErrDeadlineExceeded); {
	case late && !p.acknowledged:
		err = ErrUnresponsive
	case late:
		err = fmt.Errorf("no data for %s, although the process responds: %w", idleTimeout, err)
	case n > 0:
		p.acknowledged = true
	}
	return n, err
}

// AckRequests acknowledges each request (102 Processing, RFC 2518 section 10.1) before it
// is handled, so the client can distinguish a busy process from a stopped one.
func AckRequests(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoAtLeast(1, 1) { // HTTP/1.0 has no such status
			w.WriteHeader(http.StatusProcessing)
		}
		h.ServeHTTP(w, r)
	})
}
