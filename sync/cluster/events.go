package cluster

import (
	"cmp"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// serviceEvent is the teller of Services.
func serviceEvent(n objectName, value any) sync.Event {
	if value == nil {
		return sync.DeleteService{Name: model.ServiceName{Namespace: n.namespace, Name: n.name}}
	}
	return value.(sync.SetService)
}

// sliceEvent is the teller of EndpointSlices.
func sliceEvent(n objectName, value any) sync.Event {
	if value == nil {
		return sync.DeleteSlice{Name: model.EndpointSliceName{Namespace: n.namespace, Name: n.name}}
	}
	return value.(sync.SetSlice)
}

// serviceCIDRs are the ranges of all ServiceCIDRs.
type serviceCIDRs struct {
	byName map[objectName][]netip.Prefix
	sent   []netip.Prefix
}

func newServiceCIDRs() *serviceCIDRs { return &serviceCIDRs{byName: map[objectName][]netip.Prefix{}} }

// event is the teller of ServiceCIDRs.
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

// all are the ranges, sorted, each once.
func (c *serviceCIDRs) all() []netip.Prefix {
	var out []netip.Prefix
	for _, ranges := range c.byName {
		out = append(out, ranges...)
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(out)
}

// ownNode is what is known of the node.
type ownNode struct {
	last sync.SetNode
	// keepZone tells that the Node was away and has had no zone since.
	keepZone bool
	// exists tells that there was a Node object.
	exists bool
	// available is closed when it was told that there is a Node object, ranged when it was
	// told that it has ranges of pods.
	found, hasPodRanges chan struct{}
}

func newOwnNode(name string) *ownNode {
	return &ownNode{
		last:  sync.SetNode{Node: model.Node{Name: name}, Ineligible: noNodeObject(name)},
		found: make(chan struct{}), hasPodRanges: make(chan struct{}),
	}
}

// noNodeObject says why a node without an object should get no connections.
func noNodeObject(node string) string { return "there is no Node object " + node }

// event is the teller of the node. What a Node that has only just been registered
// has not yet, the machine still has. A zone that is taken from a Node that was
// there all along is another matter: somebody wants it to go.
func (o *ownNode) event(_ objectName, value any) sync.Event {
	now := o.last
	if value == nil {
		now.Ineligible, o.keepZone = noNodeObject(now.Node.Name), true
	} else {
		now = value.(sync.SetNode)
		now.Node.Addrs = orPrevious(o.last.Node.Addrs, now.Node.Addrs)
		now.Node.PodCIDRs = orPrevious(o.last.Node.PodCIDRs, now.Node.PodCIDRs)
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

// onChange lets go on who waits for what was told: whoever goes on finds it pending.
func (o *ownNode) closeWaiters() {
	if o.exists {
		closeOnce(o.found)
	}
	if o.last.Node.PodCIDRs != (model.Node{}).PodCIDRs {
		closeOnce(o.hasPodRanges)
	}
}

// orPrevious returns what is there now, or what was if that is nothing.
func orPrevious[T comparable](before, now T) T {
	if now == *new(T) {
		return before
	}
	return now
}

// closeOnce closes a channel that nobody else closes.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
