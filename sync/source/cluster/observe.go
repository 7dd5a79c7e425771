package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A request works when it has delivered what it is for: a list its end, a watch a change, a bookmark,
// or its end when the reflector requests it, after five to ten minutes. Pings do not notice that a
// proxy or middlebox has lost a part of a response, but not its connection.
const (
	// lateTime is after how long a list without its end is an outage; client-go's dialer, whose error
	// says more, takes 30 s. A streamed list ends then; after maxLost in a row, lists are not streamed.
	// A server ends other lists after a minute.
	lateTime, listTimeout = 31 * time.Second, 5 * time.Minute
	maxLost               = 2
	// bookmarkTime is how long a watch that had a bookmark may be without the next one. An API server
	// sends one a minute, if any; others need not (KEP-956).
	bookmarkTime, watchOverrun = 3 * time.Minute, 30 * time.Second
	// So many watches in a row that end so soon are an outage.
	maxShortWatches, shortWatch = 5, 5 * time.Second
)

// A lateError is the failure of a request that has not delivered what it is for. Only one that has
// ends such a failure.
type lateError string

const (
	errLate  lateError = "nothing from the server in time, a part of its response may be lost"
	errNoEnd lateError = "streamed list without its end, a bookmark with " + metav1.InitialEventsAnnotationKey
	// errShortWatches is the failure of a server that responds, but cuts watches.
	errShortWatches lateError = "watches end right after they begin, changes may arrive late"
)

// Error implements error.
func (e lateError) Error() string { return string(e) }

// late returns the error of a request that was ended because it was late, or nil.
func late(ctx context.Context) error {
	if context.Cause(ctx) == errLate {
		return errLate
	}
	return nil
}

// An observedWatch is a watch that ends without an error when it is late.
type observedWatch struct {
	watch.Interface
	client    *resourceClient
	ctx       context.Context
	cancel    context.CancelCauseFunc
	timer     *time.Timer // until it is late
	began     time.Time
	requested time.Duration
	complete  bool // no streamed list, or its end has come
	bookmarks bool // it had one
}

func (r *resourceClient) observe(ctx context.Context, o *metav1.ListOptions) *observedWatch {
	w := &observedWatch{
		client: r, began: time.Now(), requested: time.Duration(*o.TimeoutSeconds) * time.Second,
		complete: o.SendInitialEvents == nil,
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(w.within(), func() { w.cancel(errLate) })
	return w
}

// within returns in what time something must be heard.
func (w *observedWatch) within() time.Duration {
	switch {
	case !w.complete:
		return lateTime
	case w.bookmarks:
		return bookmarkTime
	}
	return time.Until(w.began.Add(w.requested + watchOverrun))
}

// heard records a change, a bookmark, or the end of a list or watch.
func (r *resourceClient) heard(bookmark bool) {
	if w := r.current; w != nil {
		if !w.complete {
			w.complete, r.lost = true, 0
		}
		w.bookmarks = w.bookmarks || bookmark
		w.timer.Reset(w.within())
		if time.Since(w.began) >= shortWatch {
			r.short = 0
		}
	}
	r.succeeded(true)
}

// Stop implements [watch.Interface]. The reflector calls it, also when the watch has ended by itself.
func (w *observedWatch) Stop() {
	if w.client.current == w {
		w.end()
	}
	w.Interface.Stop()
}

// end records how the watch ended.
func (w *observedWatch) end() {
	defer w.cancel(nil)
	r, took, err := w.client, time.Since(w.began), late(w.ctx)
	switch {
	case err == nil && w.ctx.Err() != nil: // shutting down
	case !w.complete:
		r.lost++
		r.outages.failed(r.to.kind, errNoEnd)
	case err != nil:
		r.outages.failed(r.to.kind, err)
	case took >= w.requested:
		r.heard(false)
	case took >= shortWatch:
		r.short = 0
	default:
		if r.short++; r.short >= maxShortWatches {
			r.outages.failed(r.to.kind, errShortWatches)
		}
	}
	w.timer.Stop()
	r.current = nil
}

// errNoResponse is the error of a watch without a response, unless the transport has one.
var errNoResponse = errors.New("connection closed before the response")

// A watchTransport keeps the error of a watch where its context says, and ends its body without one
// when it is late: the reflector resumes only watches without an error.
type watchTransport struct{ http.RoundTripper }

type failureKey struct{}

// RoundTrip implements [http.RoundTripper].
func (t watchTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if to, isWatch := r.Context().Value(failureKey{}).(*error); isWatch {
		if *to = err; err == nil {
			response.Body = watchBody{response.Body, r.Context()}
		}
	}
	return response, err
}

type watchBody struct {
	io.ReadCloser
	ctx context.Context
}

// Read implements [io.Reader].
func (b watchBody) Read(p []byte) (n int, err error) {
	if n, err = b.ReadCloser.Read(p); err != nil && late(b.ctx) != nil {
		err = io.EOF
	}
	return n, err
}
