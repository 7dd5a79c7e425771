package cluster

import (
	"context"
	"math/rand/v2"
	"reflect"
	stdsync "sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/util/flowcontrol"

	"kube-vmap/sync"
)

// An eventQueue holds events until the loop takes them, at most one for each object in
// addition to the first list's: a newer event replaces the older. Package workqueue would
// do this for keys, but the objects would have to be kept for it.
type eventQueue struct {
	mu     stdsync.Mutex
	events []sync.Event
	index  map[any]int   // in events, by subject
	ready  chan struct{} // has a token while there are events
}

func newEventQueue() *eventQueue {
	return &eventQueue{index: map[any]int{}, ready: make(chan struct{}, 1)}
}

// put adds events that must be taken together.
func (q *eventQueue) put(events []sync.Event) {
	if len(events) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range events {
		key := subject(e)
		if i, queued := q.index[key]; queued {
			q.events[i] = merge(q.events[i], e)
			continue
		}
		q.index[key] = len(q.events)
		q.events = append(q.events, e)
	}
	q.signal()
}

// putFirst adds the events of a kind's first list to a queue without events of the kind.
// They are not indexed, which would cost more than a second event about an object that
// changes before they are taken.
func (q *eventQueue) putFirst(events []sync.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = append(q.events, events...)
	q.signal()
}

func (q *eventQueue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *eventQueue) take() []sync.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	events := q.events
	if len(events) > 0 {
		// Not cleared and used again: after a list they are large.
		q.events, q.index = nil, map[any]int{}
	}
	return events
}

// subject returns a comparable key for the object that an event is about.
func subject(e sync.Event) any {
	switch e := e.(type) {
	case sync.SetService:
		return e.Service.Name
	case sync.DeleteService:
		return e.Name
	case sync.SetSlice:
		return e.Slice.Name
	case sync.DeleteSlice:
		return e.Name
	case sync.SetProblem:
		return e.Object
	}
	return reflect.TypeOf(e) // there is one node, and one list of ServiceCIDRs
}

// merge returns the newer event, with the older one's trigger: the change that has waited longest.
func merge(older, newer sync.Event) sync.Event {
	was, ok := older.(sync.SetSlice)
	if !ok || was.Triggered.IsZero() {
		return newer
	}
	if is, ok := newer.(sync.SetSlice); ok {
		is.Triggered = was.Triggered
		return is
	}
	return newer
}

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
