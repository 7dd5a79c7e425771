package status

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// ErrSilent is that a process holds the socket, but gives no sign of life: it is
// stopped, or gets no processor time.
var ErrSilent = errors.New("no sign of life")

const (
	// signOfLife is how long a process may take until it shows that it has heard the
	// question, see [ShowLife]. That takes it milliseconds, whatever else it does.
	signOfLife = 5 * time.Second
	// patience is how long it may take from there to begin its answer: others may ask at
	// the same time, and a loop that is about to give the kernel all there is answers when
	// that is done.
	patience = 30 * time.Second
	// idle is how long an answer that has begun may stop.
	idle = 10 * time.Second
)

// patient is a connection that fails if nothing comes for a while. What a while is
// changes as the answer comes.
type patient struct {
	net.Conn

	heard atomic.Bool  // the process has shown that it lives
	next  atomic.Int64 // how long each of the following bytes may take
}

func newPatient(c net.Conn, sign time.Duration) (*patient, error) {
	p := &patient{Conn: c}
	p.next.Store(int64(patience))
	return p, c.SetDeadline(time.Now().Add(sign))
}

// Read implements [io.Reader]. The time for the first byte runs since the connection
// stands.
func (p *patient) Read(b []byte) (int, error) {
	wait := time.Duration(p.next.Load())
	heard := p.heard.Load()
	if heard {
		if err := p.SetDeadline(time.Now().Add(wait)); err != nil {
			return 0, err
		}
	}
	n, err := p.Conn.Read(b)
	switch late := errors.Is(err, os.ErrDeadlineExceeded); {
	case late && !heard:
		err = ErrSilent
	case late:
		err = fmt.Errorf("nothing came for %s, though the process lives: %w", wait, err)
	case n > 0:
		p.heard.Store(true)
	}
	return n, err
}

// begins tells that the answer has begun.
func (p *patient) begins() { p.next.Store(int64(idle)) }

// ShowLife answers that a question was heard (102, RFC 2518 section 10.1) before it is
// thought about, so that who asks can tell a process that is busy from one that is
// stopped.
func ShowLife(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoAtLeast(1, 1) { // there was nothing of the kind before
			w.WriteHeader(http.StatusProcessing)
		}
		h.ServeHTTP(w, r)
	})
}
