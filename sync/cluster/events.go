package cluster

import (
	"net/netip"
	"reflect"
	"slices"
	stdsync "sync"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// An eventFunc returns the event for a converted object's value; nil if there is none.
// A nil value means that the object is gone.
type eventFunc func(n objectName, value any) sync.Event

func serviceEvent(n objectName, value any) sync.Event {
	if value == nil {
		return sync.DeleteService{Name: model.ServiceName{Namespace: n.namespace, Name: n.name}}
	}
	return value.(sync.SetService)
}

func sliceEvent(n objectName, value any) sync.Event {
	if value == nil {
		return sync.DeleteSlice{Name: model.EndpointSliceName{Namespace: n.namespace, Name: n.name}}
	}
	return value.(sync.SetSlice)
}

type serviceCIDRs struct {
	byName map[objectName][]netip.Prefix
	sent   []netip.Prefix
}

func newServiceCIDRs() *serviceCIDRs {
	return &serviceCIDRs{byName: map[objectName][]netip.Prefix{}}
}

func (c *serviceCIDRs) event(n objectName, value any) sync.Event {
	if value == nil {
		delete(c.byName, n)
	} else {
		c.byName[n] = value.([]netip.Prefix)
	}
	all := c.all()
	if slices.Equal(all, c.sent) {
		return nil
	}
	c.sent = all
	return sync.SetServiceCIDRs{CIDRs: all}
}

// all returns the ranges, sorted and without duplicates.
func (c *serviceCIDRs) all() []netip.Prefix {
	var out []netip.Prefix
	for _, ranges := range c.byName {
		out = append(out, ranges...)
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// ownNode is what is known of the proxy's own Node.
type ownNode struct {
	last     sync.SetNode
	exists   bool // a Node object was seen
	keepZone bool // the Node was deleted, and has had no zone since
	// found is closed when the queue has the Node, hasPodRanges when it has the Node's pod CIDRs.
	found, hasPodRanges chan struct{}
}

func newOwnNode(name string) *ownNode {
	return &ownNode{
		last:  sync.SetNode{Node: model.Node{Name: name}, Ineligible: noNodeObject(name)},
		found: make(chan struct{}), hasPodRanges: make(chan struct{}),
	}
}

// noNodeObject returns why a node without a Node object is not eligible for
// connections from load balancers.
func noNodeObject(node string) string { return "there is no Node object " + node }

// event is the eventFunc of Nodes. A Node that has just been registered may lack what
// the machine still has, so the last known values stay. But a zone that is removed
// from an existing Node was removed on purpose.
func (o *ownNode) event(_ objectName, value any) sync.Event {
	now := o.last
	if value == nil {
		now.Ineligible, o.keepZone = noNodeObject(now.Node.Name), true
	} else {
		now = value.(sync.SetNode)
		now.Node.Addrs = orPrevious(now.Node.Addrs, o.last.Node.Addrs)
		now.Node.PodCIDRs = orPrevious(now.Node.PodCIDRs, o.last.Node.PodCIDRs)
		o.keepZone = o.keepZone && now.Node.Zone == ""
		if o.keepZone {
			now.Node.Zone = o.last.Node.Zone
		}
		o.exists = true
	}
	if now == o.last {
		return nil
	}
	o.last = now
	return now
}

// closeWaiters closes found and hasPodRanges. It is called after the event was queued,
// so that the first burst has it.
func (o *ownNode) closeWaiters() {
	if o.exists {
		closeOnce(o.found)
	}
	if o.last.Node.PodCIDRs != (model.Node{}).PodCIDRs {
		closeOnce(o.hasPodRanges)
	}
}

func orPrevious[T comparable](now, previous T) T {
	if now == *new(T) {
		return previous
	}
	return now
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// closeOnce closes a channel that only this goroutine closes, unless it is closed.
func closeOnce(c chan struct{}) {
	if !isClosed(c) {
		close(c)
	}
}

// An eventQueue holds events until the loop takes them, at most one for each object besides
// that of the first list: a newer event replaces the older. Package workqueue would do this
// for keys, but the objects would have to be kept for it.
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

// putFirst adds the events of a kind's first list, of which the queue has none yet. They
// are not indexed, which would cost more than a second event about an object that changes
// before they are taken.
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
