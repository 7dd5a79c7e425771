package model

import (
	"cmp"
	"math/bits"
	"net/netip"
	"slices"
)

// endpointLists are the endpoints of one Service port on one node. All lists are sorted
// and without duplicates. They become the lists of [Pool].
type endpointLists struct {
	// cluster is for traffic under PolicyCluster, local for PolicyLocal.
	cluster, local []netip.AddrPort
	// clusterWeights and localWeights are the weights of these endpoints; nil if all are
	// equal.
	clusterWeights, localWeights []uint16
	// anyUsable reports whether some endpoint could serve on some node. If so, an
	// empty list means "not on this node" and not "nowhere".
	anyUsable bool
	// hairpin lists the addresses of the endpoints in cluster and local that run on this node; if
	// connections are held, of all that do and serve.
	hairpin []netip.Addr
	// avoided are the unresponsive endpoints of other priorities, standBy the other ready ones.
	avoided, standBy []netip.AddrPort
	// flows are all endpoints that serve; only if needed.
	flows []netip.AddrPort
}

// criteria are the traits that a candidate needs to be on each list.
type criteria struct {
	cluster, local traits
	needs          needs
}

// needs are what the lists of a Service port depend on apart from its endpoints.
type needs struct {
	flows bool // whether endpointLists.flows is listed
	held  bool // whether connections are held without a ready endpoint
}

// criteria returns what the counted candidates need to be on each list:
//
//   - cluster: ready endpoints, those first that hints prefer for this node (KEP-2433,
//     KEP-4444). If none is ready, endpoints that terminate and still serve
//     (KEP-1669), whatever their hints. Not if connections are held instead: many programs
//     refuse connections when they are told to end.
//   - local: the same among the endpoints on this node, without hints.
//
// Drained endpoints are on neither list, whatever the others are.
func (t *traitCounts) criteria(n needs) criteria {
	return criteria{t.clusterCriterion(n), t.firstPresent(isReady|isLocal, t.fallback(n)|isLocal), n}
}

// fallback returns the traits that an endpoint needs if none is ready. While others are ready
// elsewhere, nothing is held: an endpoint on this node may terminate and still serve.
func (t *traitCounts) fallback(n needs) traits {
	if n.held && !t.anyHas(isReady) {
		return isReady
	}
	return isServingTerminating
}

// hairpin returns the traits of endpoints on the node that are in one of the lists. If connections are
// held, it is all that serve: clients of other nodes may reach them, and followers count these.
func (c criteria) hairpin() []traits {
	if c.needs.held {
		return []traits{isLocal | isReady, isLocal | isServing}
	}
	return []traits{isLocal | c.cluster, isLocal | c.local}
}

// clusterCriterion returns the traits that an endpoint needs for the cluster list.
// Hints count only if every ready endpoint has some and one of them names this node
// or zone: incomplete hints would overload the endpoints that have them.
func (t *traitCounts) clusterCriterion(n needs) traits {
	for _, hint := range []struct{ missing, matching traits }{
		{withoutNodeHint, hintedForNode},
		{withoutZoneHint, hintedForZone},
	} {
		if !t.anyHas(isReady|hint.missing) && t.anyHas(isReady|hint.matching) {
			return isReady | hint.matching
		}
	}
	return t.firstPresent(isReady, t.fallback(n))
}

// anyUsable reports whether some endpoint could be on one of the lists on some node.
func (t *traitCounts) anyUsable(n needs) bool { return t.anyHas(isReady) || t.anyHas(t.fallback(n)) }

// firstPresent returns the first alternative that some candidate has, or else the
// last one.
func (t *traitCounts) firstPresent(alternatives ...traits) traits {
	for _, a := range alternatives {
		if t.anyHas(a) {
			return a
		}
	}
	return alternatives[len(alternatives)-1]
}

// traits are the properties of a candidate on one node, one bit each. All bits are in
// use: an additional one needs uint16, and larger arrays in [traitCounts].
type traits uint8

const (
	isReady traits = 1 << iota
	isServing
	isTerminating
	isLocal // runs on the node
	hintedForNode
	hintedForZone
	withoutNodeHint // of any node
	withoutZoneHint // of any zone

	// isServingTerminating are the traits of an endpoint that terminates but still
	// serves (KEP-1669).
	isServingTerminating = isServing | isTerminating
)

func (t traits) hasAll(want traits) bool { return t&want == want }

// hasAny reports whether all traits of one of the alternatives are present.
func (t traits) hasAny(alternatives ...traits) bool {
	for _, want := range alternatives {
		if t.hasAll(want) {
			return true
		}
	}
	return false
}

// onlyIf returns t if the condition holds, or else no traits.
func (t traits) onlyIf(condition bool) traits {
	if condition {
		return t
	}
	return 0
}

// traitsOf returns the traits of a slice's endpoint on the node. To a drained endpoint
// only established flows may go: like one that is not ready but serves.
func (n *Node) traitsOf(s *EndpointSlice, e *Endpoint) traits {
	if s.Drained {
		return (isServing | isLocal.onlyIf(n.hosts(e))).onlyIf(e.Ready || e.Serving)
	}
	return isReady.onlyIf(e.Ready) |
		isServing.onlyIf(e.Serving) |
		isTerminating.onlyIf(e.Terminating) |
		isLocal.onlyIf(n.hosts(e)) |
		hintedForNode.onlyIf(e.NodeHints.Has(n.Name)) |
		hintedForZone.onlyIf(e.ZoneHints.Has(n.Zone)) |
		withoutNodeHint.onlyIf(e.NodeHints == "") |
		withoutZoneHint.onlyIf(e.ZoneHints == "")
}

// traitCounts counts candidates by their traits, except for those without any. There are
// few combinations, so queries about all candidates need not look at each.
type traitCounts struct {
	counts  [1 << 8]uint32
	present [1 << 8 / 64]uint64 // a bit for each count above zero
}

func (t *traitCounts) add(c traits) {
	if c == 0 {
		return
	}
	t.counts[c]++
	t.present[c/64] |= 1 << (c % 64)
}

func (t *traitCounts) remove(c traits) {
	if c == 0 {
		return
	}
	if t.counts[c]--; t.counts[c] == 0 {
		t.present[c/64] &^= 1 << (c % 64)
	}
}

// all ranges over the combinations that occur.
func (t *traitCounts) all(yield func(traits) bool) {
	for i, word := range t.present {
		for ; word != 0; word &= word - 1 {
			if !yield(traits(64*i + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

// anyHas reports whether some candidate has all the traits in want.
func (t *traitCounts) anyHas(want traits) bool {
	for c := range t.all {
		if c.hasAll(want) {
			return true
		}
	}
	return false
}

// count returns how many candidates have one of the alternatives.
func (t *traitCounts) count(alternatives ...traits) int {
	n := 0
	for c := range t.all {
		if c.hasAny(alternatives...) {
			n += int(t.counts[c])
		}
	}
	return n
}

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
