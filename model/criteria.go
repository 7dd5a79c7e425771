package model

import "net/netip"

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
