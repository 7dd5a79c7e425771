package model

import (
	"maps"
	"net/netip"
	"slices"
)

// endpointView provides the data of a Service's endpoints, from the cache of a Service
// with many slices or else directly from the slices.
type endpointView struct {
	*serviceEntry
	node      *Node
	nodeAddrs NodeAddrs
	// active are the slices with priorities that some port uses; nil without priorities.
	active map[EndpointSliceName]bool
}

// lists returns the endpoint lists of a port. Of the slices with a priority, unresponsive endpoints do
// not count as serving.
func (v *endpointView) lists(key portKey, n needs, unresponsive []netip.AddrPort) endpointLists {
	if v.cache != nil {
		return v.cache.lists(key, n)
	}
	x := endpointIndex{portKey: key}
	if !v.slices.prioritized() {
		x.rebuild(v.slices, v.node)
		x.rebuildLists(v.slices, n)
		return x.lists
	}
	active, avoided, standBy := v.slices.active(key, unresponsive)
	x.rebuild(active, v.node)
	x.rebuildLists(active, needs{held: n.held})
	if v.active == nil {
		v.active = map[EndpointSliceName]bool{}
	}
	for i := range active {
		v.active[active[i].Name] = true
	}
	if x.lists.avoided, x.lists.standBy = avoided, standBy; n.flows {
		all := endpointIndex{portKey: key}
		all.rebuild(v.slices, v.node)
		x.lists.flows = all.matching(v.slices, isServing, isReady)
		if all.criteria.needs = n; n.held {
			x.lists.hairpin = all.hairpin(v.slices)
		}
	}
	return x.lists
}

// localAddrs returns the addresses of ready endpoints on the node.
func (v *endpointView) localAddrs() addrCounts {
	if v.cache != nil {
		return v.cache.localAddrs
	}
	out := addrCounts{}
	for i := range v.slices {
		if v.active == nil || v.active[v.slices[i].Name] {
			out.add(&v.slices[i], v.node, 1)
		}
	}
	return out
}

// minCachedSlices is how many slices a Service must have for its endpoints to be
// cached. The EndpointSlice controller puts 100 endpoints into a slice, and uses
// different slices for each family.
const minCachedSlices = 4

// endpointCache keeps the endpoints of a Service with many slices between updates. A
// changed slice then costs its own size and not the size of the Service:
//
//	changed slice --> candidates removed and added --> endpointIndex of each port
//	              --> traits changed by address    --> patched copies of the lists
//
// The remaining cost in proportion to all endpoints is a copy of memory: lists are copied
// because returned ones must not change. Only if the criteria change, for example when
// the first endpoint gets a hint, are all candidates looked at again.
type endpointCache struct {
	node       Node
	slices     endpointSlices // unused positions are empty slices
	positions  map[EndpointSliceName]uint32
	free       []uint32                       // unused positions
	changed    map[EndpointSliceName]struct{} // since the last update
	indexes    map[portKey]*endpointIndex
	localAddrs addrCounts
}

// newEndpointCache returns a cache of the slices without any index yet.
func newEndpointCache(from []EndpointSlice, n Node) *endpointCache {
	c := &endpointCache{
		node: n, slices: slices.Clone(from),
		positions: make(map[EndpointSliceName]uint32, len(from)),
		changed:   map[EndpointSliceName]struct{}{}, indexes: map[portKey]*endpointIndex{}, localAddrs: addrCounts{},
	}
	for i := range from {
		c.positions[from[i].Name] = uint32(i)
		c.localAddrs.add(&from[i], &c.node, 1)
	}
	return c
}

func (c *endpointCache) markChanged(name EndpointSliceName) {
	if c != nil {
		c.changed[name] = struct{}{}
	}
}

// update reads the changed slices by means of slice, which returns nil for a removed one.
func (c *endpointCache) update(slice func(EndpointSliceName) *EndpointSlice) {
	if len(c.changed) == 0 {
		return
	}
	before := c.slices
	c.slices = slices.Clone(before)
	var touched []uint32
	for name := range c.changed {
		if i, ok := c.replace(name, slice(name)); ok {
			touched = append(touched, i)
		}
	}
	clear(c.changed)
	before = append(before, make(endpointSlices, len(c.slices)-len(before))...)
	slices.Sort(touched)
	// A new slice may have taken the position of a removed one.
	d := &sliceDelta{before, c.slices, slices.Compact(touched), &c.node}
	for _, i := range d.touched {
		c.localAddrs.add(&d.before[i], d.node, -1)
		c.localAddrs.add(&d.after[i], d.node, +1)
	}
	for _, x := range c.indexes {
		x.update(d)
	}
}

// replace stores the slice, or removes it if s is nil. It returns the slice's position,
// and false if there was nothing to do.
func (c *endpointCache) replace(name EndpointSliceName, s *EndpointSlice) (i uint32, ok bool) {
	i, ok = c.positions[name]
	switch {
	case s == nil && ok:
		delete(c.positions, name)
		c.free = append(c.free, i)
		c.slices[i] = EndpointSlice{}
	case s != nil && !ok:
		i = c.allocate()
		c.positions[name] = i
		fallthrough
	case s != nil:
		c.slices[i] = *s
	}
	return i, ok || s != nil
}

func (c *endpointCache) allocate() uint32 {
	if last := len(c.free) - 1; last >= 0 {
		i := c.free[last]
		c.free = c.free[:last]
		return i
	}
	c.slices = append(c.slices, EndpointSlice{})
	return uint32(len(c.slices) - 1)
}

// lists returns the endpoint lists of a port.
func (c *endpointCache) lists(key portKey, n needs) endpointLists {
	x := c.indexes[key]
	switch {
	case x == nil:
		x = &endpointIndex{portKey: key}
		c.indexes[key] = x
		x.rebuild(c.slices, &c.node)
		x.rebuildLists(c.slices, n)
	case x.criteria.needs != n:
		x.rebuildLists(c.slices, n)
	}
	x.used = true
	return x.lists
}

// dropUnused drops the indexes that were not used since the last call.
func (c *endpointCache) dropUnused() {
	if c == nil {
		return
	}
	maps.DeleteFunc(c.indexes, func(_ portKey, x *endpointIndex) bool { return !x.used })
	for _, x := range c.indexes {
		x.used = false
	}
}

// addrCounts counts how often each address occurs among the ready endpoints on a node
// that are not drained.
type addrCounts map[netip.Addr]int

// add adds n for each occurrence of an address in the slice.
func (a addrCounts) add(s *EndpointSlice, node *Node, n int) {
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if !e.Ready || s.Drained || !node.hosts(e) {
			continue
		}
		if a[e.Addr] += n; a[e.Addr] == 0 {
			delete(a, e.Addr)
		}
	}
}
