package cluster

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
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

	lost, short int // streamed lists in a row without their end, and watches that ended soon
	current     *observedWatch
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
	defer time.AfterFunc(lateTime, func() { r.outages.failed(r.to.kind, errLate) }).Stop()
	list, err := r.get(&options).Do(ctx).Get()
	if r.recordResult(&options, late(ctx, err)); err != nil {
		return nil, err
	}
	return r.convertList(list)
}

func (r *resourceClient) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := r.optional.wait(ctx); err != nil {
		return nil, err
	}
	streams := options.SendInitialEvents != nil
	if streams && r.lost >= maxLost {
		return nil, errNoEnd // the reflector, which would request it again without a delay, lists plainly
	}
	options.Watch = true
	w := &observedWatch{client: r, began: time.Now(), complete: !streams}
	w.requested = time.Duration(*options.TimeoutSeconds) * time.Second
	// If its end is late, it ends without an error, and the reflector resumes it.
	ctx, w.end = context.WithTimeout(ctx, w.requested+watchOverrun)
	ctx, cancel := context.WithCancelCause(ctx)
	w.ended = func() error { return late(ctx, ctx.Err()) }
	if w.timer = time.AfterFunc(lateTime, func() { cancel(errLate) }); w.complete {
		w.timer.Stop()
	}
	var failure, err error
	w.Interface, err = r.get(&options).Watch(context.WithValue(ctx, failureKey{}, &failure))
	if _, stream := w.Interface.(*watch.StreamWatcher); stream {
		if r.current = w; !streams {
			r.recordResult(&options, nil)
		}
		return w, nil
	}
	defer w.end()
	defer w.timer.Stop()
	if streams && isExpired(err) {
		r.lost++
	}
	switch {
	case late(ctx, nil) != nil:
		w.record()
	case err == nil:
		// The client returns an empty watch if it has no connection or it ends before the response.
		r.recordResult(&options, cmp.Or(failure, errors.New("connection closed before the response")))
	case !streams || !apierrors.IsInvalid(err): // older servers cannot stream lists
		r.recordResult(&options, err)
	}
	return w.Interface, err
}

func (r *resourceClient) get(options *metav1.ListOptions) *rest.Request {
	options.LabelSelector, options.FieldSelector = r.labels, r.fields
	// No retries, because reflectors retry themselves: the client would retry silently
	// for minutes when a server accepts connections but does not respond.
	return r.client.Get().MaxRetries(0).Resource(r.resource).VersionedParams(options, metav1.ParameterCodec)
}

func (r *resourceClient) recordResult(options *metav1.ListOptions, err error) {
	switch {
	case isExpired(err) && options.ResourceVersion+options.Continue != "":
		return // the reflector starts over with a list of any version, which cannot expire
	case err == nil:
		r.optional.available()
		r.outages.succeeded(r.to.kind, false)
	case !r.optional.refused(err):
		r.outages.failed(r.to.kind, err)
	case r.optional.isUnavailable(err):
		r.outages.succeeded(r.to.kind, true)
	}
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

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
