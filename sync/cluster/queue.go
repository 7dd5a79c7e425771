package cluster

import (
	"reflect"
	stdsync "sync"

	"kube-vmap/sync"
)

// queue are the events that nobody took yet. There is one for each object: a
// newer one takes the place of the older.
type eventQueue struct {
	mu     stdsync.Mutex
	events []sync.Event
	index  map[any]int // the place in events, by subject
	// ready has a token when there is something to take.
	ready chan struct{}
}

func newEventQueue() *eventQueue {
	return &eventQueue{index: map[any]int{}, ready: make(chan struct{}, 1)}
}

// send adds events that are taken together, or with what follows them.
func (p *eventQueue) put(events []sync.Event) {
	if len(events) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		about := subject(e)
		if i, waits := p.index[about]; waits {
			p.events[i] = merge(p.events[i], e)
			continue
		}
		p.index[about] = len(p.events)
		p.events = append(p.events, e)
	}
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// acquire returns what waits; nil if that is nothing.
func (p *eventQueue) take() []sync.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	events := p.events
	if len(events) > 0 {
		// Not cleared for the next ones: after a list, that would be big.
		p.events, p.index = nil, map[any]int{}
	}
	return events
}

// subject is what an event is about, in a form that can be compared.
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
	// There is one node, and one list of ranges.
	return reflect.TypeOf(e)
}

// merge returns the newer event. It has waited since what the older one tells
// of was triggered.
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
