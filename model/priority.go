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
	all := s.undrained(key)
	var best endpointRank
	for _, c := range all {
		e := s.endpoint(c)
		r := endpointRank{true, replies(s.addrPort(c)), e.Ready, s[c.slice].Priority}
		if (e.Ready || e.Serving && e.Terminating) && r.isBefore(best) {
			best = r
		}
	}
	if !best.exists {
		return s, nil, nil
	}
	for i := range s {
		if s[i].Priority == best.priority || s[i].Drained {
			active = append(active, s[i])
		}
	}
	for _, c := range all {
		switch at := s.addrPort(c); {
		case !s.endpoint(c).Ready || s[c.slice].Priority == best.priority:
		case replies(at):
			standBy = append(standBy, at)
		default:
			avoided = append(avoided, at)
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

// undrained returns the candidates for the port that no slice drains, without their traits.
func (s endpointSlices) undrained(key portKey) (all []candidate) {
	drained := map[netip.AddrPort]candidate{} // of each address the one to use
	for i := range s {
		for number := range key.portNumbers(&s[i]) {
			for k := range s[i].Endpoints {
				c := candidate{slice: uint32(i), index: uint32(k), number: number}
				if !s[i].Drained {
					all = append(all, c)
				} else if before, twice := drained[s.addrPort(c)]; !twice || s.compareSameAddr(c, before) < 0 {
					drained[s.addrPort(c)] = c
				}
			}
		}
	}
	return slices.DeleteFunc(all, func(c candidate) bool {
		by, found := drained[s.addrPort(c)]
		return found && s.compareSameAddr(by, c) < 0
	})
}
