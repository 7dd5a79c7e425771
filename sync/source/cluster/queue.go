package cluster

import (
	"reflect"
	stdsync "sync"

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
