package cluster

import (
	"context"
	"errors"
	stdsync "sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// resourceClient are how a reflector asks for the objects of one kind.
type resourceClient struct {
	kind     string // of the objects
	resource string
	client   rest.Interface
	// labels and fields select objects.
	labels, fields string

	convert convertFunc
	outages *outageLog
	lists   *activeLists
	// optional is told what says that the server does not have the kind; nil for
	// kinds that every server has.
	optional *optionalResource
}

// listerWatcher is what the reflector takes.
func (r *resourceClient) listerWatcher() cache.ListerWatcher {
	return &cache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}
}

// writeList gets a list, or a page of one, and makes items of it, so that the objects
// of one page can go before the next one comes.
func (r *resourceClient) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if !r.lists.begin() {
		return nil, context.Canceled
	}
	defer r.lists.end()
	if err := r.optional.wait(ctx); err != nil {
		return nil, err
	}
	list, err := r.get(&options).Do(ctx).Get()
	if r.recordResult(err); err != nil {
		return nil, err
	}
	return r.convertList(list)
}

// errNoResponse says that there was no watch though there was no error.
var errNoResponse = errors.New("the connection was cut")

// watch begins to watch.
func (r *resourceClient) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := r.optional.wait(ctx); err != nil {
		return nil, err
	}
	options.Watch = true
	w, err := r.get(&options).Watch(ctx)
	_, stream := w.(*watch.StreamWatcher)
	switch {
	case err == nil && !stream:
		// What the client makes of a connection that ends before the answer.
		r.recordResult(errNoResponse)
		return w, nil
	case err == nil:
		w = r.outages.shortWatches.observe(ctx, r.kind, w)
	case options.SendInitialEvents != nil && apierrors.IsInvalid(err):
		return nil, err // an older server, which does not stream lists
	}
	r.recordResult(err)
	return w, err
}

func (r *resourceClient) get(options *metav1.ListOptions) *rest.Request {
	options.LabelSelector, options.FieldSelector = r.labels, r.fields
	// Reflectors try again themselves. The client would, for minutes and without a
	// word, when a server accepts connections and is silent.
	return r.client.Get().MaxRetries(0).Resource(r.resource).VersionedParams(options, metav1.ParameterCodec)
}

// recordResult notes how a request went.
func (r *resourceClient) recordResult(err error) {
	switch {
	case err == nil:
		r.optional.available()
		r.outages.succeeded(r.kind)
	case !r.optional.refused(err):
		r.outages.failed(r.kind, err)
	case r.optional.isUnavailable(err):
		r.outages.succeeded(r.kind)
	}
}

// convertList is a list of items in place of a list of objects.
func (r *resourceClient) convertList(list runtime.Object) (runtime.Object, error) {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	out := &metainternalversion.List{Items: make([]runtime.Object, 0, meta.LenList(list))}
	out.ResourceVersion, out.Continue = m.GetResourceVersion(), m.GetContinue()
	out.RemainingItemCount = m.GetRemainingItemCount()
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		it, err := r.convert(obj)
		out.Items = append(out.Items, it)
		return err
	})
	return out, err
}

// activeLists counts lists that are underway. Reflectors do not wait for theirs when
// they end.
type activeLists struct {
	mu     stdsync.RWMutex
	closed bool
}

// begin returns false if no more may begin.
func (u *activeLists) begin() bool {
	u.mu.RLock()
	if u.closed {
		u.mu.RUnlock()
		return false
	}
	return true
}

func (u *activeLists) end() { u.mu.RUnlock() }

// closeAndWait waits until none is underway and lets none begin.
func (u *activeLists) closeAndWait() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
}
