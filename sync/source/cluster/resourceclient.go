package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	stdsync "sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"kube-vmap/sync"
)

// A resourceClient lists and watches the objects of one kind for a reflector.
type resourceClient struct {
	to             *store
	resource       string
	group          schema.GroupVersion
	codec          runtime.NegotiatedSerializer
	client         rest.Interface
	labels, fields string // selectors

	outages  *outageLog
	lists    *activeLists
	optional *optionalResource // nil for resources that every server has

	streamDelay wait.DelayFunc
	streamed    string    // the resource version of the last streamed list
	nextStream  time.Time // when it may be requested again
}

// list gets and converts a list or one page of it. The objects of one page can be freed
// before the next one is read.
func (r *resourceClient) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if !r.lists.begin() {
		return nil, context.Canceled
	}
	defer r.lists.end()
	if err := r.optional.wait(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := r.get(&options).Do(ctx).Get()
	if r.recordResult(&options, cmp.Or(overdue(ctx), err)); err != nil {
		return nil, err
	}
	return r.convertList(list)
}

// errNoResponse is the error of a watch without a response, unless the transport has one.
var errNoResponse = errors.New("connection closed before the response")

// Pings do not notice that a middlebox has lost a request, but not its connection. A server ends a
// list after a minute, and a watch when the reflector requests it, after five to ten minutes.
const (
	listTimeout  = 5 * time.Minute
	watchOverrun = 30 * time.Second
)

// overdue returns an error if a request did not end in time.
func overdue(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("no end of the request in time, its response may be lost: %w", os.ErrDeadlineExceeded)
	}
	return nil
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

func (r *resourceClient) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := r.optional.wait(ctx); err != nil {
		return nil, err
	}
	if options.SendInitialEvents != nil {
		r.waitToStream(ctx, options.ResourceVersion)
	}
	options.Watch = true
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*options.TimeoutSeconds)*time.Second+watchOverrun)
	var failure error
	w, err := r.get(&options).Watch(context.WithValue(ctx, failureKey{}, &failure))
	if _, stream := w.(*watch.StreamWatcher); stream {
		r.recordResult(&options, nil)
		return r.outages.observe(ctx, cancel, r.to.kind, w), nil
	}
	defer cancel()
	switch {
	case err == nil:
		// The client returns an empty watch if it has no connection or it ends before the response.
		r.recordResult(&options, cmp.Or(overdue(ctx), failure, errNoResponse))
	case options.SendInitialEvents == nil || !apierrors.IsInvalid(err): // older servers cannot stream lists
		r.recordResult(&options, err)
	}
	return w, err
}

// waitToStream delays a streamed list that repeats the one before: the reflector requests it again
// without a delay if the server responds that it has expired (410), or ends it early.
func (r *resourceClient) waitToStream(ctx context.Context, version string) {
	if version == r.streamed {
		sync.Sleep(ctx, time.Until(r.nextStream))
	}
	r.streamed, r.nextStream = version, time.Now().Add(r.streamDelay())
}

func (r *resourceClient) get(options *metav1.ListOptions) *rest.Request {
	options.LabelSelector, options.FieldSelector = r.labels, r.fields
	// No retries, because reflectors retry themselves: the client would retry silently
	// for minutes when a server accepts connections but does not respond.
	return r.client.Get().MaxRetries(0).Resource(r.resource).VersionedParams(options, metav1.ParameterCodec)
}

func (r *resourceClient) recordResult(options *metav1.ListOptions, err error) {
	switch {
	case (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) && options.ResourceVersion+options.Continue != "":
		return // the reflector starts over with a list of any version, which cannot expire
	case err == nil:
		r.optional.available()
		r.outages.succeeded(r.to.kind)
	case !r.optional.refused(err):
		r.outages.failed(r.to.kind, err)
	case r.optional.isUnavailable(err):
		r.outages.succeeded(r.to.kind)
	}
}

func (r *resourceClient) convertList(list runtime.Object) (runtime.Object, error) {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	out := &metainternalversion.List{Items: make([]runtime.Object, 0, meta.LenList(list))}
	out.ResourceVersion, out.Continue = m.GetResourceVersion(), m.GetContinue()
	out.RemainingItemCount = m.GetRemainingItemCount()
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		converted, err := r.to.convert(obj)
		out.Items = append(out.Items, converted)
		return err
	})
	return out, err
}

// activeLists are the list requests in progress, which reflectors do not wait for when they end.
type activeLists struct {
	mu     stdsync.RWMutex
	closed bool
}

// begin starts a request. It reports false after closeAndWait.
func (a *activeLists) begin() bool {
	a.mu.RLock()
	if a.closed {
		a.mu.RUnlock()
		return false
	}
	return true
}

func (a *activeLists) end() { a.mu.RUnlock() }

// closeAndWait waits until no request is in progress and prevents further ones.
func (a *activeLists) closeAndWait() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
}

// An optionalResource tracks whether the API server serves a resource that the source
// can do without. A nil one is a resource that every server has.
//
// Not found (404) counts immediately. Forbidden (403) counts only when it lasts, because a server
// that has just started refuses everything until it has loaded its RBAC objects.
type optionalResource struct {
	kind          string
	log           *slog.Logger
	onUnavailable func()

	logged       bool
	refusedSince time.Time // of refusals in a row; zero if the last request was not refused
	nextRequest  time.Time // zero: immediately
}

const (
	forbiddenGrace = 15 * time.Second // how long 403 must last to count
	// How long, and up to twice that, to wait after 403 and 404.
	forbiddenRetry = 30 * time.Second
	notFoundRetry  = 5 * time.Minute
)

func (o *optionalResource) available() {
	if o != nil {
		o.refusedSince, o.nextRequest = time.Time{}, time.Time{}
	}
}

// refused records a failed request. It reports whether the error may mean that the
// resource is unavailable.
func (o *optionalResource) refused(err error) bool {
	if o == nil {
		return false
	}
	refused := apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
	switch {
	case !refused:
		o.refusedSince = time.Time{}
	case o.refusedSince.IsZero():
		o.refusedSince = time.Now()
	}
	return refused
}

// isUnavailable reports whether a refusal counts, and calls onUnavailable if so. That
// is logged once: objects that were read before stay known.
func (o *optionalResource) isUnavailable(err error) bool {
	retry := forbiddenRetry
	if apierrors.IsNotFound(err) {
		retry = notFoundRetry
	} else if time.Since(o.refusedSince) < forbiddenGrace {
		o.nextRequest = time.Time{}
		return false
	}
	o.nextRequest = time.Now().Add(wait.Jitter(retry, 1))
	if !o.logged {
		o.logged = true
		o.log.Info("API resource unavailable, continuing without it", "kind", o.kind, "err", err)
	}
	o.onUnavailable()
	return true
}

func (o *optionalResource) wait(ctx context.Context) error {
	if o != nil && !o.nextRequest.IsZero() {
		sync.Sleep(ctx, time.Until(o.nextRequest))
	}
	return ctx.Err()
}
