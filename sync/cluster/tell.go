package cluster

import (
	"cmp"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// tellService is the teller of Services.
func tellService(n name, value any) sync.Event {
	if value == nil {
		return sync.DeleteService{Name: model.ServiceName{Namespace: n.namespace, Name: n.name}}
	}
	return value.(sync.SetService)
}

// tellSlice is the teller of EndpointSlices.
func tellSlice(n name, value any) sync.Event {
	if value == nil {
		return sync.DeleteSlice{Name: model.SliceName{Namespace: n.namespace, Name: n.name}}
	}
	return value.(sync.SetSlice)
}

// serviceCIDRs are the ranges of all ServiceCIDRs.
type serviceCIDRs struct {
	of   map[name][]netip.Prefix
	told []netip.Prefix
}

func newServiceCIDRs() *serviceCIDRs { return &serviceCIDRs{of: map[name][]netip.Prefix{}} }

// tell is the teller of ServiceCIDRs.
func (c *serviceCIDRs) tell(n name, value any) sync.Event {
	if value == nil {
		delete(c.of, n)
	} else {
		c.of[n] = value.([]netip.Prefix)
	}
	all := c.all()
	if slices.Equal(all, c.told) {
		return nil
	}
	c.told = all
	return sync.SetServiceCIDRs{CIDRs: all}
}

// all are the ranges, sorted, each once.
func (c *serviceCIDRs) all() []netip.Prefix {
	var out []netip.Prefix
	for _, ranges := range c.of {
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
	// zoneless tells that the Node was away and has had no zone since.
	zoneless bool
	// there tells that there was a Node object.
	there bool
	// found is closed when it was told that there is a Node object, ranged when it was
	// told that it has ranges of pods.
	found, ranged chan struct{}
}

func newOwnNode(name string) *ownNode {
	return &ownNode{
		last:  sync.SetNode{Node: model.Node{Name: name}, Ineligible: absent(name)},
		found: make(chan struct{}), ranged: make(chan struct{}),
	}
}

// absent says why a node without an object should get no connections.
func absent(node string) string { return "there is no Node object " + node }

// tell is the teller of the node. What a Node that has only just been registered
// has not yet, the machine still has. A zone that is taken from a Node that was
// there all along is another matter: somebody wants it to go.
func (o *ownNode) tell(_ name, value any) sync.Event {
	now := o.last
	if value == nil {
		now.Ineligible, o.zoneless = absent(now.Node.Name), true
	} else {
		now = value.(sync.SetNode)
		now.Node.Addrs = keep(o.last.Node.Addrs, now.Node.Addrs)
		now.Node.PodRanges = keep(o.last.Node.PodRanges, now.Node.PodRanges)
		o.zoneless = o.zoneless && now.Node.Zone == ""
		if o.zoneless {
			now.Node.Zone = o.last.Node.Zone
		}
		o.there = true
	}
	if now == o.last {
		return nil
	}
	o.last = now
	return now
}

// told lets go on who waits for what was told: whoever goes on finds it pending.
func (o *ownNode) told() {
	if o.there {
		closeOnce(o.found)
	}
	if o.last.Node.PodRanges != (model.Node{}).PodRanges {
		closeOnce(o.ranged)
	}
}

// keep returns what is there now, or what was if that is nothing.
func keep[T comparable](before, now T) T {
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
