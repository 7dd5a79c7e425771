package model

import "net/netip"

// selectedEndpoints is which endpoints serve one Service port on one node.
type selectedEndpoints struct {
	// Cluster serves traffic under [PolicyCluster], Local under [PolicyLocal].
	// Both are sorted and without duplicates.
	Cluster, Local []netip.AddrPort
	// hasAny tells that some endpoint could serve on some node, so that an
	// empty list here means "not on this node" rather than "nobody".
	hasAny bool
	// OnNode lists the addresses of those endpoints of Cluster and Local that
	// run on this node; sorted and without duplicates.
	OnNode []netip.Addr
	// FlowEndpoints are all endpoints that serve, where somebody wants to know; see [Pool].
	Flows []netip.AddrPort
}

// selectEndpoints decides which endpoints of family f in these slices serve the port on
// node n.
//
// Ready endpoints serve, those that hints prefer for this node first (KEP-2433,
// KEP-4444). If none is ready, endpoints that are terminating but still serving
// take over (KEP-1669), whatever the hints. The local list is decided by itself
// and knows no hints.
func selectEndpoints(port ServicePortName, f Family, from []EndpointSlice, n Node) selectedEndpoints {
	v := view{slices: from, node: &n}
	return v.selection(offer{port.Port, port.Protocol, f}, port.Protocol == UDP)
}

// choice is what a candidate needs to be on each list.
type choice struct {
	cluster, local traits
	flows          bool // whether somebody wants to know those that flows may stay with
}

// choice is that among candidates who have been counted.
func (t *tally) choice(flows bool) choice {
	return choice{t.preferred(), t.first(isReady|isLocal, isServingTerminating|isLocal), flows}
}

// onNode is what the chosen on the node have, one or the other.
func (c choice) onNode() []traits { return []traits{isLocal | c.cluster, isLocal | c.local} }

// preferred is what an endpoint needs to serve traffic of the whole cluster.
// Hints count only if every ready endpoint has them and one names this node or
// zone: an incomplete set of hints would overload whoever has one.
func (t *tally) preferred() traits {
	for _, hint := range []struct{ none, here traits }{
		{withoutNodeHint, hintedForNode},
		{withoutZoneHint, hintedForZone},
	} {
		if !t.have(isReady|hint.none) && t.have(isReady|hint.here) {
			return isReady | hint.here
		}
	}
	return t.first(isReady, isServingTerminating)
}

// first is the first of the wishes that some candidate meets, or else the last.
func (t *tally) first(wishes ...traits) traits {
	for _, wish := range wishes {
		if t.have(wish) {
			return wish
		}
	}
	return wishes[len(wishes)-1]
}
