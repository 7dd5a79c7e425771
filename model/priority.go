package model

import (
	"cmp"
	"iter"
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
// that are unresponsive or not. Responsive endpoints come before others, and of these the ready ones
// before those that terminate and still serve (KEP-1669). Drained slices are always active: they drain
// endpoints of every priority.
func (s endpointSlices) active(key portKey, unresponsive []netip.AddrPort) (
	active endpointSlices, avoided, standBy []netip.AddrPort,
) {
	unreplied := make(map[netip.AddrPort]struct{}, len(unresponsive))
	for _, at := range unresponsive {
		unreplied[at] = struct{}{}
	}
	replies := func(at netip.AddrPort) bool { _, no := unreplied[at]; return !no }
	drains := s.drains(key)
	var best endpointRank
	for i := range s {
		for at, e := range s.endpointsOf(i, key, drains) {
			r := endpointRank{true, replies(at), e.Ready, s[i].Priority}
			if (e.Ready || e.Serving && e.Terminating) && r.isBefore(best) {
				best = r
			}
		}
	}
	if !best.exists {
		return s, nil, nil
	}
	for i := range s {
		if s[i].Priority == best.priority || s[i].Drained {
			active = append(active, s[i])
			continue
		}
		for at, e := range s.endpointsOf(i, key, drains) {
			switch {
			case !e.Ready:
			case replies(at):
				standBy = append(standBy, at)
			default:
				avoided = append(avoided, at)
			}
		}
	}
	for _, list := range []*[]netip.AddrPort{&avoided, &standBy} {
		slices.SortFunc(*list, netip.AddrPort.Compare)
		*list = slices.Compact(*list)
	}
	return active, avoided, standBy
}

// An endpointRank is what decides which priority serves.
type endpointRank struct {
	exists, replies, ready bool
	priority               uint8
}

func (r endpointRank) isBefore(o endpointRank) bool {
	return cmp.Or(trueFirst(r.exists, o.exists), trueFirst(r.replies, o.replies), trueFirst(r.ready, o.ready),
		cmp.Compare(r.priority, o.priority)) < 0
}

// drains returns the drained candidates, of each address the one to use.
func (s endpointSlices) drains(key portKey) map[netip.AddrPort]candidate {
	drains := map[netip.AddrPort]candidate{}
	for i := range s {
		if !s[i].Drained {
			continue
		}
		for number := range key.portNumbers(&s[i]) {
			for k := range s[i].Endpoints {
				c := candidate{slice: uint32(i), index: uint32(k), number: number}
				if before, twice := drains[s.addrPort(c)]; !twice || s.compareSameAddr(c, before) < 0 {
					drains[s.addrPort(c)] = c
				}
			}
		}
	}
	return drains
}

// endpointsOf ranges over the endpoints of slice i that offer the port, unless they are drained.
func (s endpointSlices) endpointsOf(
	i int, key portKey, drains map[netip.AddrPort]candidate,
) iter.Seq2[netip.AddrPort, *Endpoint] {
	return func(yield func(netip.AddrPort, *Endpoint) bool) {
		for number := range key.portNumbers(&s[i]) {
			for k := range s[i].Endpoints {
				c := candidate{slice: uint32(i), index: uint32(k), number: number}
				if drain, found := drains[s.addrPort(c)]; found && s.compareSameAddr(drain, c) <= 0 {
					continue
				}
				if !yield(s.addrPort(c), s.endpoint(c)) {
					return
				}
			}
		}
	}
}
