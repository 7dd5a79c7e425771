package model

import (
	"cmp"
	"net/netip"
	"slices"
)

// MaxPriority is the worst priority of an EndpointSlice.
const MaxPriority = 9

// Priorities are numbers of slices: 0, the default, is the best. Of a port's endpoints, only those
// of the best priority that has one to serve are chosen from; the others stand by. A Service with
// priorities has no cache: each change costs in proportion to all its endpoints.

func (s endpointSlices) prioritized() bool {
	return slices.ContainsFunc(s, func(s EndpointSlice) bool { return s.Priority > 0 })
}

// active returns the slices whose endpoints may serve the port, and the ready endpoints of the others
// that are unresponsive or not. An endpoint that is ready and responsive comes before
// one that terminates and still serves (KEP-1669), and responsive ones come before the others.
func (s endpointSlices) active(key portKey, unresponsive []netip.AddrPort) (
	active endpointSlices, avoided, standBy []netip.AddrPort,
) {
	type rank struct {
		unresponsive, terminating bool
		priority                  uint8
	}
	var best *rank
	for i := range s {
		for at, e := range s[i].endpointsOf(key) {
			r := rank{slices.Contains(unresponsive, at), !e.Ready, s[i].Priority}
			better := best == nil || cmp.Or(trueFirst(!r.unresponsive, !best.unresponsive),
				trueFirst(!r.terminating, !best.terminating), cmp.Compare(r.priority, best.priority)) < 0
			if better && (e.Ready || e.Serving && e.Terminating) {
				best = &r
			}
		}
	}
	if best == nil {
		return s, nil, nil
	}
	for i := range s {
		if s[i].Priority == best.priority {
			active = append(active, s[i])
			continue
		}
		for at, e := range s[i].endpointsOf(key) {
			switch {
			case !e.Ready:
			case slices.Contains(unresponsive, at):
				avoided = append(avoided, at)
			default:
				standBy = append(standBy, at)
			}
		}
	}
	for _, list := range []*[]netip.AddrPort{&avoided, &standBy} {
		slices.SortFunc(*list, netip.AddrPort.Compare)
		*list = slices.Compact(*list)
	}
	return active, avoided, standBy
}

// endpointsOf ranges over the endpoints that offer the port, unless they are drained.
func (s *EndpointSlice) endpointsOf(key portKey) func(yield func(netip.AddrPort, *Endpoint) bool) {
	return func(yield func(netip.AddrPort, *Endpoint) bool) {
		if s.Drained {
			return
		}
		for number := range key.portNumbers(s) {
			for i := range s.Endpoints {
				if e := &s.Endpoints[i]; !yield(netip.AddrPortFrom(e.Addr, number), e) {
					return
				}
			}
		}
	}
}
