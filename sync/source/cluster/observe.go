package cluster

import (
	"context"
	"errors"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A request works when it has delivered what it is for: a list its end, a watch a change, a bookmark,
// or its end when the reflector requests it, after five to ten minutes. Pings do not notice that a
// proxy or middlebox has lost a part of a response, but not its connection.
const (
	// A list without its end after lateTime is an outage (client-go's dialer, whose error says more,
	// takes 30 s). The reflector replaces a streamed one by a plain one, the only kind after maxLost.
	lateTime, listTimeout, maxLost = 31 * time.Second, 5 * time.Minute, 2
	// A watch that had a bookmark gets the next one in bookmarkTime: one a minute, if any (KEP-956).
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

// late returns errLate if a request was ended because it was late, or else err.
func late(ctx context.Context, err error) error {
	if ctx.Err() == context.DeadlineExceeded || errors.Is(context.Cause(ctx), errLate) {
		return errLate
	}
	return err
}

// An observedWatch is a watch that ends when it is late.
type observedWatch struct {
	watch.Interface
	client    *resourceClient
	end       context.CancelFunc
	ended     func() error // by whom: errLate, canceled, or nil for the server
	timer     *time.Timer  // until it is late, if its end is not near
	began     time.Time
	requested time.Duration
	complete  bool // no streamed list, or its end has come
	bookmarks bool // it had one
}

// heard records a change, a bookmark, or the end of a list or watch.
func (r *resourceClient) heard(bookmark bool) {
	if w := r.current; w != nil {
		if !w.complete {
			w.complete, r.lost = true, 0
			w.timer.Stop()
		}
		if w.bookmarks = w.bookmarks || bookmark; w.bookmarks {
			w.timer.Reset(bookmarkTime)
		}
		if time.Since(w.began) >= shortWatch {
			r.short = 0
		}
	}
	r.optional.available()
	r.outages.succeeded(r.to.kind, r.short < maxShortWatches)
}

// Stop implements [watch.Interface]. The reflector calls it, also when the watch has ended by itself.
func (w *observedWatch) Stop() {
	if w.client.current == w {
		w.record()
	}
	w.Interface.Stop()
}

// record records how the watch ended, and ends its context.
func (w *observedWatch) record() {
	defer w.end()
	r, took := w.client, time.Since(w.began)
	switch err := w.ended(); {
	case errors.Is(err, context.Canceled): // shutting down
	case !w.complete:
		r.lost++
		r.outages.failed(r.to.kind, errNoEnd)
	case err != nil:
		r.outages.failed(r.to.kind, err)
	case took >= w.requested:
		r.heard(false)
	case took < shortWatch:
		if r.short++; r.short >= maxShortWatches {
			r.outages.failed(r.to.kind, errShortWatches)
		}
	}
	w.timer.Stop()
	r.current = nil
}

// A failureKeeper keeps the error of a request where its context says.
type failureKeeper struct{ http.RoundTripper }

type failureKey struct{}

// RoundTrip implements [http.RoundTripper].
func (t failureKeeper) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if to, wanted := r.Context().Value(failureKey{}).(*error); wanted {
		*to = err
	}
	return response, err
}
