package cluster

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kube-vmap/sync"
)

// What kube-proxy asks for, and no more: Services that have a virtual address and
// were not left to another proxy (KEP-2447), and EndpointSlices of such.
const (
	servicesLabels = "!service.kubernetes.io/service-proxy-name"
	servicesFields = "spec.clusterIP!=" + corev1.ClusterIPNone
	slicesLabels   = "!" + corev1.IsHeadlessService
)

// watching is a source at work.
type watching struct {
	source  *Source
	began   time.Time
	pending *pending
	contact *contact
	under   *underway

	node                           *ownNode
	services, slices, cidrs, nodes *store
}

func (s *Source) newWatching() *watching {
	w := &watching{
		source: s, began: time.Now(),
		pending: newPending(), contact: newContact(s.log), under: &underway{},
		node: newOwnNode(s.config.NodeName),
	}
	w.services = newStore("Service", reduceServices(), tellService, w.pending)
	w.slices = newStore("EndpointSlice", reduceSlices(), tellSlice, w.pending)
	w.cidrs = newStore("ServiceCIDR", reduceServiceCIDRs(), newServiceCIDRs().tell, w.pending)
	w.nodes = newStore("Node", reduceNode(s.config.NodeName), w.node.tell, w.pending)
	w.nodes.told = w.node.told
	// Until there is a Node, this is what is known of it.
	w.pending.put([]sync.Event{w.node.last})
	return w
}

func (w *watching) stores() []*store {
	return []*store{w.services, w.slices, w.cidrs, w.nodes}
}

// reflectors watch everything.
func (w *watching) reflectors(ctx context.Context) []*cache.Reflector {
	client := w.source.config.Client
	own := fields.OneTermEqualSelector("metadata.name", w.source.config.NodeName).String()
	missing := newMissing("ServiceCIDR", w.source.log, w.cidrs.complete)
	return []*cache.Reflector{
		w.reflector(ctx, w.services, &corev1.Service{}, &requests{
			client: client.CoreV1().RESTClient(), resource: "services", labels: servicesLabels, fields: servicesFields,
		}),
		w.reflector(ctx, w.slices, &discoveryv1.EndpointSlice{}, &requests{
			client: client.DiscoveryV1().RESTClient(), resource: "endpointslices", labels: slicesLabels,
		}),
		w.reflector(ctx, w.cidrs, &networkingv1.ServiceCIDR{}, &requests{
			client: client.NetworkingV1().RESTClient(), resource: "servicecidrs", missing: missing,
		}),
		w.reflector(ctx, w.nodes, &corev1.Node{}, &requests{
			client: client.CoreV1().RESTClient(), resource: "nodes", fields: own,
		}),
	}
}

func (w *watching) reflector(ctx context.Context, to *store, of runtime.Object, r *requests) *cache.Reflector {
	r.kind, r.reduce, r.contact, r.under = to.kind, to.reduce, w.contact, w.under
	logger := klog.FromContext(quiet(ctx, w.source.log))
	return cache.NewReflectorWithOptions(r.listerWatcher(), of, to, cache.ReflectorOptions{
		Name: to.kind, Logger: &logger, Clock: newClockUntil(ctx), Backoff: backoff(),
	})
}

// backoff is how long to wait after errors: each wait is of a random length between
// a base and twice that, and the base doubles.
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 10, Cap: 10 * time.Second}
}

// calmAfter is how long after waits began to grow they are short again.
const calmAfter = 2 * time.Minute

// follow lists and watches until ctx ends. A reflector's own way to do that would
// count the time that it waited for a server to come back, and wait as long again
// when that server has forgotten where it was and a new list is needed.
func follow(ctx context.Context, r *cache.Reflector) {
	delay := backoff().DelayWithReset(clock.RealClock{}, calmAfter)
	for ctx.Err() == nil {
		if err := r.ListAndWatchWithContext(ctx); err != nil {
			klog.FromContext(ctx).V(4).Info("Cannot list or watch", "reflector", r.Name(), "err", err)
		}
		await(ctx, nil, time.After(delay()))
	}
}

// clockUntil is a clock whose waits end with ctx, too. Of the reflector's, not all
// do: one that waits for a server to come back would keep its source from ending.
type clockUntil struct {
	clock.RealClock
	after func(time.Duration) <-chan time.Time
}

func newClockUntil(ctx context.Context) clockUntil {
	return clockUntil{after: func(d time.Duration) <-chan time.Time {
		over := make(chan time.Time, 1)
		waited, cancel := context.WithTimeout(ctx, d)
		context.AfterFunc(waited, func() {
			cancel()
			over <- time.Now()
		})
		return over
	}}
}

// After delivers when d has passed or the end has come.
func (c clockUntil) After(d time.Duration) <-chan time.Time { return c.after(d) }
