package cluster

import (
	"context"
	"math/rand/v2"
	stdsync "sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/util/flowcontrol"

	"kube-vmap/sync"
)

// queueLength is how many events may wait in a queue.
const queueLength = 256

// A pacedQueue sends events at a limited rate.
type pacedQueue struct {
	events   chan queuedEvent
	interval time.Duration // between events, after the first burst
	burst    int
	maxDelay time.Duration // each event waits for a random time of up to this

	mu      stdsync.Mutex
	waiting map[string]int // by namespace
}

type queuedEvent struct {
	*eventsv1.Event
	notBefore time.Time
}

func newPacedQueue(interval time.Duration, burst int, maxDelay time.Duration) *pacedQueue {
	return &pacedQueue{
		events: make(chan queuedEvent, queueLength), waiting: map[string]int{},
		interval: interval, burst: burst, maxDelay: maxDelay,
	}
}

// put queues an event, and reports false if too many wait.
func (q *pacedQueue) put(e *eventsv1.Event) bool {
	queued := queuedEvent{Event: e, notBefore: time.Now()}
	if q.maxDelay > 0 {
		queued.notBefore = queued.notBefore.Add(rand.N(q.maxDelay))
	}
	if !q.reserve(e.Regarding.Namespace) {
		return false
	}
	select {
	case q.events <- queued:
		return true
	default:
		q.release(e.Regarding.Namespace)
		return false
	}
}

func (q *pacedQueue) run(ctx context.Context, send func(context.Context, *eventsv1.Event)) {
	limiter := flowcontrol.NewTokenBucketRateLimiter(float32(1/q.interval.Seconds()), q.burst)
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-q.events:
			q.release(e.Regarding.Namespace)
			sync.Sleep(ctx, time.Until(e.notBefore))
			if limiter.Wait(ctx) == nil {
				send(ctx, e.Event)
			}
		}
	}
}

// maxEventsPerNamespace is how many events about objects of one namespace may wait in a
// queue, to keep any author from filling it.
const maxEventsPerNamespace = 8

// reserve counts one more event of a namespace, and reports false if it has too many. Cluster-scoped
// objects, which have no namespace, are not limited.
func (q *pacedQueue) reserve(namespace string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if namespace != "" && q.waiting[namespace] >= maxEventsPerNamespace {
		return false
	}
	q.waiting[namespace]++
	return true
}

func (q *pacedQueue) release(namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[namespace]--; q.waiting[namespace] == 0 {
		delete(q.waiting, namespace)
	}
}
