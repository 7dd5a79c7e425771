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
// before those that terminate and still serve (KEP-1669).
func (s endpointSlices) active(key portKey, unresponsive []netip.AddrPort) (
	active endpointSlices, avoided, standBy []netip.AddrPort,
) {
	unreplied := make(map[netip.AddrPort]struct{}, len(unresponsive))
	for _, at := range unresponsive {
		unreplied[at] = struct{}{}
	}
	replies := func(at netip.AddrPort) bool { _, no := unreplied[at]; return !no }
	var best endpointRank
	for i := range s {
		for at, e := range s[i].endpointsOf(key) {
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
		if s[i].Priority == best.priority {
			active = append(active, s[i])
			continue
		}
		for at, e := range s[i].endpointsOf(key) {
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

// endpointsOf ranges over the endpoints that offer the port, unless they are drained.
func (s *EndpointSlice) endpointsOf(key portKey) iter.Seq2[netip.AddrPort, *Endpoint] {
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
