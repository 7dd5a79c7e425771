package model

import (
	"maps"
	"net/netip"
	"slices"
)

// manySlices is how many slices a Service must have for what is gathered from
// them to be kept. The EndpointSlice controller fills slices with 100 endpoints
// each, for each family.
const manySlices = 4

// gathered is what is kept of a Service with many slices from one time to the
// next, so that a slice costs what it is and not what the Service is:
//
//	slice --(difference to itself before)--> candidates gone and fresh
//	      --(sorted into the roll of each port)--> shifts of who counts where
//	      --(tally, choice)--> lists, copied with the shifts
//
// What is left in proportion to all endpoints is to move memory: the lists are
// copied, since those handed out belong to whoever has them. Only if who is wanted
// changes, as when the first endpoint gets a hint, everybody is looked at again.
type gathered struct {
	node    Node
	slices  places
	at      map[EndpointSliceName]uint32   // where each slice is in slices
	free    []uint32                       // where there is none any more
	changed map[EndpointSliceName]struct{} // since the last update
	rolls   map[offer]*roll
	hosted  hosted
}

// gather begins anew.
func gather(from []EndpointSlice, n Node) *gathered {
	g := &gathered{
		node: n, slices: slices.Clone(from),
		at:      make(map[EndpointSliceName]uint32, len(from)),
		changed: map[EndpointSliceName]struct{}{}, rolls: map[offer]*roll{}, hosted: hosted{},
	}
	for i := range from {
		g.at[from[i].Name] = uint32(i)
		g.hosted.count(&from[i], &g.node, 1)
	}
	return g
}

// note remembers that the slice of that name may have changed.
func (g *gathered) note(name EndpointSliceName) {
	if g != nil {
		g.changed[name] = struct{}{}
	}
}

// update takes over the changed slices. There is nil for a slice that is gone.
func (g *gathered) update(slice func(EndpointSliceName) *EndpointSlice) {
	if len(g.changed) == 0 {
		return
	}
	before := g.slices
	g.slices = slices.Clone(before)
	var touched []uint32
	for name := range g.changed {
		if i, ok := g.replace(name, slice(name)); ok {
			touched = append(touched, i)
		}
	}
	clear(g.changed)
	before = append(before, make(places, len(g.slices)-len(before))...)
	slices.Sort(touched)
	// A new slice may have taken the place of one that is gone.
	t := &turn{before, g.slices, slices.Compact(touched), &g.node}
	for _, i := range t.touched {
		g.hosted.count(&t.before[i], t.node, -1)
		g.hosted.count(&t.now[i], t.node, +1)
	}
	for _, r := range g.rolls {
		r.update(t)
	}
}

// replace puts the slice, or none, in the place of the one of its name, and says
// which that is, if any.
func (g *gathered) replace(name EndpointSliceName, s *EndpointSlice) (i uint32, ok bool) {
	i, ok = g.at[name]
	switch {
	case s == nil && ok:
		delete(g.at, name)
		g.free = append(g.free, i)
		g.slices[i] = EndpointSlice{}
	case s != nil && !ok:
		i = g.room()
		g.at[name] = i
		fallthrough
	case s != nil:
		g.slices[i] = *s
	}
	return i, ok || s != nil
}

// room is a place that is free.
func (g *gathered) room() uint32 {
	if last := len(g.free) - 1; last >= 0 {
		i := g.free[last]
		g.free = g.free[:last]
		return i
	}
	g.slices = append(g.slices, EndpointSlice{})
	return uint32(len(g.slices) - 1)
}

// selection chooses among those who make the offer.
func (g *gathered) selection(o offer, flows bool) selectedEndpoints {
	r := g.rolls[o]
	switch {
	case r == nil:
		r = &roll{offer: o}
		g.rolls[o] = r
		r.call(g.slices, &g.node)
		r.choose(g.slices, flows)
	case r.choice.flows != flows:
		r.choose(g.slices, flows)
	}
	r.asked = true
	return r.chosen
}

// forget gives up the rolls that nobody has asked for since the last time.
func (g *gathered) forget() {
	if g == nil {
		return
	}
	maps.DeleteFunc(g.rolls, func(_ offer, r *roll) bool { return !r.asked })
	for _, r := range g.rolls {
		r.asked = false
	}
}

// hosted are the addresses that are ready on a node, with how often each of them
// stands in slices.
type hosted map[netip.Addr]int

// count adds n for each time that an address stands in the slice.
func (h hosted) count(s *EndpointSlice, node *Node, n int) {
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if !e.Ready || !node.hosts(e) {
			continue
		}
		if h[e.Addr] += n; h[e.Addr] == 0 {
			delete(h, e.Addr)
		}
	}
}
