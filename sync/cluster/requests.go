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

// requests are how a reflector asks for the objects of one kind.
type requests struct {
	kind     string // of the objects
	resource string
	client   rest.Interface
	// labels and fields select objects.
	labels, fields string

	reduce  reducer
	contact *contact
	under   *underway
	// missing is told what says that the server does not have the kind; nil for
	// kinds that every server has.
	missing *missing
}

// listerWatcher is what the reflector takes.
func (r *requests) listerWatcher() cache.ListerWatcher {
	return &cache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}
}

// list gets a list, or a page of one, and makes items of it, so that the objects
// of one page can go before the next one comes.
func (r *requests) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if !r.under.begin() {
		return nil, context.Canceled
	}
	defer r.under.end()
	if err := r.missing.wait(ctx); err != nil {
		return nil, err
	}
	list, err := r.get(&options).Do(ctx).Get()
	if r.heard(err); err != nil {
		return nil, err
	}
	return r.reduceList(list)
}

// errCut says that there was no watch though there was no error.
var errCut = errors.New("the connection was cut")

// watch begins to watch.
func (r *requests) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := r.missing.wait(ctx); err != nil {
		return nil, err
	}
	options.Watch = true
	w, err := r.get(&options).Watch(ctx)
	_, stream := w.(*watch.StreamWatcher)
	switch {
	case err == nil && !stream:
		// What the client makes of a connection that ends before the answer.
		r.heard(errCut)
		return w, nil
	case err == nil:
		w = r.contact.brief.measure(ctx, r.kind, w)
	case options.SendInitialEvents != nil && apierrors.IsInvalid(err):
		return nil, err // an older server, which does not stream lists
	}
	r.heard(err)
	return w, err
}

func (r *requests) get(options *metav1.ListOptions) *rest.Request {
	options.LabelSelector, options.FieldSelector = r.labels, r.fields
	// Reflectors try again themselves. The client would, for minutes and without a
	// word, when a server accepts connections and is silent.
	return r.client.Get().MaxRetries(0).Resource(r.resource).VersionedParams(options, metav1.ParameterCodec)
}

// heard notes how a request went.
func (r *requests) heard(err error) {
	switch {
	case err == nil:
		r.missing.found()
		r.contact.works(r.kind)
	case !r.missing.refused(err):
		r.contact.failed(r.kind, err)
	case r.missing.believed(err):
		r.contact.works(r.kind)
	}
}

// reduceList is a list of items in place of a list of objects.
func (r *requests) reduceList(list runtime.Object) (runtime.Object, error) {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	out := &metainternalversion.List{Items: make([]runtime.Object, 0, meta.LenList(list))}
	out.ResourceVersion, out.Continue = m.GetResourceVersion(), m.GetContinue()
	out.RemainingItemCount = m.GetRemainingItemCount()
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		it, err := r.reduce(obj)
		out.Items = append(out.Items, it)
		return err
	})
	return out, err
}

// underway counts lists that are underway. Reflectors do not wait for theirs when
// they end.
type underway struct {
	mu   stdsync.RWMutex
	over bool
}

// begin returns false if no more may begin.
func (u *underway) begin() bool {
	u.mu.RLock()
	if u.over {
		u.mu.RUnlock()
		return false
	}
	return true
}

func (u *underway) end() { u.mu.RUnlock() }

// finish waits until none is underway and lets none begin.
func (u *underway) finish() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
}
