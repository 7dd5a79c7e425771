package nodes

import (
	"context"
	"io"
	"math"
	"sync"
	"time"
)

// maxTimeouts times the time-out is how long an answer may take: a node could send a byte
// from time to time for ever.
const maxTimeouts = 30

// idle cancels a context if nothing is written for too long, or if writing does not end.
// After stop, nothing is written.
type idle struct {
	timeout    time.Duration
	cancel     context.CancelCauseFunc
	timer, end *time.Timer

	mu       sync.Mutex // guards what follows, and the writers
	stopped  bool
	writeErr error
}

func newIdle(ctx context.Context, timeout time.Duration) (context.Context, *idle) {
	ctx, cancel := context.WithCancelCause(ctx)
	i := &idle{timeout: timeout, cancel: cancel}
	i.timer = time.AfterFunc(timeout, func() { cancel(&TimeoutError{After: timeout}) })
	longest := maxTimeouts * min(timeout, math.MaxInt64/maxTimeouts)
	i.end = time.AfterFunc(longest, func() { cancel(&TimeoutError{longest, true}) })
	return ctx, i
}

// stop ends writing, and releases the context.
func (i *idle) stop() {
	i.timer.Stop()
	i.end.Stop()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
	i.cancel(nil)
}

// writer returns a writer whose writes restart the time-out.
func (i *idle) writer(to io.Writer) io.Writer { return idleWriter{i, to} }

type idleWriter struct {
	*idle
	to io.Writer
}

// Write implements [io.Writer].
func (w idleWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return 0, io.ErrClosedPipe
	}
	w.timer.Stop() // how long the reader takes does not count
	n, err := w.to.Write(p)
	if err != nil {
		w.writeErr = err
		w.cancel(err)
		return n, err
	}
	w.timer.Reset(w.timeout)
	return n, nil
}
