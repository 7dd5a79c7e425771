package cluster

import (
	"context"
	"math/rand/v2"
	stdsync "sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
)

// queueLength is how many events may wait in a queue.
const queueLength = 256

// A pacedQueue sends events at a limited rate.
type pacedQueue struct {
	events   chan queuedEvent
	quota    *namespaceQuota
	interval time.Duration // between events, after the first burst
	burst    int
	maxDelay time.Duration // each event waits for a random time of up to this
	// gap is the least time between two events, even in a burst: client-go makes a
	// series of equal events only if the API server has the first when the second comes.
	gap time.Duration
}

// A queuedEvent is an event and the earliest time to send it.
type queuedEvent struct {
	*eventsv1.Event
	notBefore time.Time
}

func newPacedQueue(interval time.Duration, burst int) pacedQueue {
	return pacedQueue{events: make(chan queuedEvent, queueLength), quota: newNamespaceQuota(), interval: interval, burst: burst}
}

// put queues an event, and reports false if too many wait.
func (l *pacedQueue) put(e *eventsv1.Event) bool {
	q := queuedEvent{Event: e, notBefore: time.Now()}
	if l.maxDelay > 0 {
		q.notBefore = q.notBefore.Add(rand.N(l.maxDelay))
	}
	if !l.quota.acquire(e.Regarding.Namespace) {
		return false
	}
	select {
	case l.events <- q:
		return true
	default:
		l.quota.release(e.Regarding.Namespace)
		return false
	}
}

// run sends events until ctx ends.
func (l *pacedQueue) run(ctx context.Context, to events.EventRecorder) {
	limiter := flowcontrol.NewTokenBucketRateLimiter(float32(1/l.interval.Seconds()), l.burst)
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-l.events:
			l.quota.release(e.Regarding.Namespace)
			waitFor(ctx, nil, time.After(time.Until(e.notBefore)))
			if limiter.Wait(ctx) == nil {
				to.Eventf(&e.Regarding, nil, e.Type, e.Reason, e.Action, "%s", e.Note)
			}
			if l.gap > 0 {
				waitFor(ctx, nil, time.After(l.gap))
			}
		}
	}
}

// maxEventsPerNamespace is how many events about objects of one namespace may wait in
// a queue, so that no single author can fill it.
const maxEventsPerNamespace = 8

// A namespaceQuota limits queued events by namespace. It is safe for concurrent use.
type namespaceQuota struct {
	mu      stdsync.Mutex
	waiting map[string]int
}

func newNamespaceQuota() *namespaceQuota { return &namespaceQuota{waiting: map[string]int{}} }

// acquire counts one more event, and reports false if the namespace has too many.
// Cluster-scoped objects, which have no namespace, are not limited.
func (s *namespaceQuota) acquire(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if namespace != "" && s.waiting[namespace] >= maxEventsPerNamespace {
		return false
	}
	s.waiting[namespace]++
	return true
}

// release counts one event less.
func (s *namespaceQuota) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[namespace]--; s.waiting[namespace] == 0 {
		delete(s.waiting, namespace)
	}
}
