package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kube-vmap/sync"
	"kube-vmap/sync/source/cluster/selectors"
)

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
	cidrs := &serviceCIDRs{byName: map[objectName][]netip.Prefix{}}
	w.cidrs = newStore("ServiceCIDR", serviceCIDRConverter(), cidrs.event, w.queue)
	w.nodes = newStore("Node", nodeConverter(s.config.NodeName), w.node.event, w.queue)
	w.services.ownSubjects, w.slices.ownSubjects = true, true
	w.nodes.onChange = w.node.closeWaiters
	// Until there is a Node object, only its name is known.
	w.queue.put([]sync.Event{w.node.last})
	w.reflectors, err = w.newReflectors(ctx)
	return w, err
}

func (w *watcher) newReflectors(ctx context.Context) (out []*cache.Reflector, err error) {
	own := fields.OneTermEqualSelector("metadata.name", w.source.config.NodeName).String()
	core, discovery := corev1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion
	standard := scheme.Codecs.WithoutConversion()
	for _, r := range []*resourceClient{
		{
			to: w.services, resource: "services", group: core, codec: newCodec(core, w.services),
			labels: selectors.ServiceLabels(), fields: selectors.ServiceFields,
		},
		{
			to: w.slices, resource: "endpointslices", group: discovery, codec: newCodec(discovery, w.slices),
			labels: selectors.SliceLabels,
		},
		{
			to: w.cidrs, resource: "servicecidrs", group: networkingv1.SchemeGroupVersion, codec: standard,
			optional: &optionalResource{kind: "ServiceCIDR", log: w.source.log, onUnavailable: w.cidrs.markListed},
		},
		{to: w.nodes, resource: "nodes", group: core, codec: standard, fields: own},
	} {
		if r.client, err = w.source.config.Client.resource(r.group, r.codec); err != nil {
			return nil, fmt.Errorf("create a client of %s: %w", r.resource, err)
		}
		r.outages, r.lists, r.to.heard = w.outages, w.lists, r.heard
		r.outages.succeeded(r.to.kind, true) // its age begins
		logger := klog.FromContext(withDebugLog(ctx, w.source.log))
		requests := &cache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}
		// It expects objects of no certain type: the store's convertFunc does.
		out = append(out, cache.NewReflectorWithOptions(requests, nil, r.to, cache.ReflectorOptions{
			Name: r.to.kind, TypeDescription: r.to.kind,
			Logger: &logger, Clock: newContextClock(ctx), Backoff: backoff(),
		}))
	}
	return out, nil
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
		sync.Sleep(ctx, delay())
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
