package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kube-vmap/sync"
	"kube-vmap/sync/cluster/selectors"
)

// A watcher is what a running source consists of.
type watcher struct {
	source  *Source
	started time.Time
	queue   *eventQueue
	outages *outageLog
	lists   *activeLists

	node                           *ownNode
	services, slices, cidrs, nodes *store
	reflectors                     []*cache.Reflector // one for each kind
}

func (s *Source) newWatcher(ctx context.Context) (w *watcher, err error) {
	w = &watcher{
		source: s, started: time.Now(),
		queue: newEventQueue(), outages: newOutageLog(s.log), lists: &activeLists{},
		node: newOwnNode(s.config.NodeName),
	}
	w.services = newStore("Service", serviceConverter(), serviceEvent, w.queue)
	w.slices = newStore("EndpointSlice", sliceConverter(), sliceEvent, w.queue)
	w.cidrs = newStore("ServiceCIDR", serviceCIDRConverter(), newServiceCIDRs().event, w.queue)
	w.nodes = newStore("Node", nodeConverter(s.config.NodeName), w.node.event, w.queue)
	w.services.ownSubjects, w.slices.ownSubjects = true, true
	w.nodes.onChange = w.node.closeWaiters
	// Until there is a Node object, only its name is known.
	w.queue.put([]sync.Event{w.node.last})
	w.reflectors, err = w.newReflectors(ctx)
	return w, err
}

func (w *watcher) stores() []*store {
	return []*store{w.services, w.slices, w.cidrs, w.nodes}
}

func (w *watcher) newReflectors(ctx context.Context) (out []*cache.Reflector, err error) {
	own := fields.OneTermEqualSelector("metadata.name", w.source.config.NodeName).String()
	services, endpoints := newCodec(corev1.SchemeGroupVersion, w.services),
		newCodec(discoveryv1.SchemeGroupVersion, w.slices)
	standard := scheme.Codecs.WithoutConversion()
	for _, r := range []struct {
		to    *store
		group schema.GroupVersion
		codec runtime.NegotiatedSerializer
		*resourceClient
	}{
		{w.services, corev1.SchemeGroupVersion, services, &resourceClient{
			resource: "services", labels: selectors.ServiceLabels, fields: selectors.ServiceFields,
		}},
		{
			w.slices, discoveryv1.SchemeGroupVersion, endpoints,
			&resourceClient{resource: "endpointslices", labels: selectors.SliceLabels},
		},
		{w.cidrs, networkingv1.SchemeGroupVersion, standard, &resourceClient{
			resource: "servicecidrs", optional: newOptionalResource("ServiceCIDR", w.source.log, w.cidrs.markListed),
		}},
		{w.nodes, corev1.SchemeGroupVersion, standard, &resourceClient{resource: "nodes", fields: own}},
	} {
		if r.client, err = w.source.config.Client.resource(r.group, r.codec); err != nil {
			return nil, fmt.Errorf("create a client of %s: %w", r.resource, err)
		}
		out = append(out, w.reflector(ctx, r.to, r.resourceClient))
	}
	return out, nil
}

// reflector completes a client of a resource, and returns a reflector from it to a store.
// It expects objects of no certain type: the store's convertFunc does.
func (w *watcher) reflector(ctx context.Context, to *store, r *resourceClient) *cache.Reflector {
	r.kind, r.convert, r.outages, r.lists = to.kind, to.convert, w.outages, w.lists
	logger := klog.FromContext(withDebugLog(ctx, w.source.log))
	return cache.NewReflectorWithOptions(r.listerWatcher(), nil, to, cache.ReflectorOptions{
		Name: to.kind, TypeDescription: to.kind, Logger: &logger, Clock: newContextClock(ctx), Backoff: backoff(),
	})
}

// backoff returns the delays after errors: each is of a random length between a base
// and twice that, and the base doubles.
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 10, Cap: 10 * time.Second}
}

// backoffReset is how long after delays began to grow they are short again.
const backoffReset = 2 * time.Minute

// listAndWatch lists and watches until ctx ends. [cache.Reflector.Run] is not used: it
// would count the time that it waited for an unavailable server, and wait as long again
// when that server has lost its history and a new list is needed.
func listAndWatch(ctx context.Context, r *cache.Reflector) {
	delay := backoff().DelayWithReset(clock.RealClock{}, backoffReset)
	for ctx.Err() == nil {
		if err := r.ListAndWatchWithContext(ctx); err != nil {
			klog.FromContext(ctx).V(4).Info("Cannot list or watch", "reflector", r.Name(), "err", err)
		}
		waitFor(ctx, nil, time.After(delay()))
	}
}

// A contextClock is a clock whose waits end with a context, too. Some of the
// reflector's own waits do not, and would delay the end of the source.
type contextClock struct {
	clock.RealClock
	after func(time.Duration) <-chan time.Time
}

func newContextClock(ctx context.Context) contextClock {
	return contextClock{after: func(d time.Duration) <-chan time.Time {
		over := make(chan time.Time, 1)
		waited, cancel := context.WithTimeout(ctx, d)
		context.AfterFunc(waited, func() {
			cancel()
			over <- time.Now()
		})
		return over
	}}
}

// After delivers when d has passed or the context has ended.
func (c contextClock) After(d time.Duration) <-chan time.Time { return c.after(d) }
