package cluster

import (
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// An eventFunc returns the event, if any, for a converted object's value. A nil value
// means that the object was deleted.
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
	out := slices.Concat(slices.Collect(maps.Values(c.byName))...)
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// A nodeObject is the converted value of a Node object.
type nodeObject struct {
	sync.SetNode
	UID types.UID
}

// ownNode is the known state of the proxy's own Node.
type ownNode struct {
	last     sync.SetNode
	uid      types.UID
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

// event is the eventFunc of Nodes. A Node that has just been registered may lack fields
// that the machine still has, so the last known values stay. But a zone that is removed
// from an existing Node was removed on purpose.
func (o *ownNode) event(_ objectName, value any) sync.Event {
	now := o.last
	if value == nil {
		now.Ineligible, o.keepZone = noNodeObject(now.Node.Name), true
	} else {
		object := value.(nodeObject)
		now = object.SetNode
		now.Node.Addrs = orPrevious(now.Node.Addrs, o.last.Node.Addrs)
		now.Node.PodCIDRs = orPrevious(now.Node.PodCIDRs, o.last.Node.PodCIDRs)
		o.keepZone = (o.keepZone || o.exists && o.uid != object.UID) && now.Node.Zone == ""
		if o.keepZone {
			now.Node.Zone = o.last.Node.Zone
		}
		o.exists, o.uid = true, object.UID
	}
	if now == o.last {
		return nil
	}
	o.last = now
	return now
}

// closeWaiters closes found and hasPodRanges. It is called after the event was queued, to
// include it in the first burst.
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
