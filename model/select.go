package model

import "net/netip"

// Selection is which endpoints serve one Service port on one node.
type Selection struct {
	// Cluster serves traffic under [PolicyCluster], Local under [PolicyLocal].
	// Both are sorted and without duplicates.
	Cluster, Local []netip.AddrPort
	// Anywhere tells that some endpoint could serve on some node, so that an
	// empty list here means "not on this node" rather than "nobody".
	Anywhere bool
	// OnNode lists the addresses of those endpoints of Cluster and Local that
	// run on this node; sorted and without duplicates.
	OnNode []netip.Addr
	// Flows are all endpoints that serve, where somebody wants to know; see [Pool].
	Flows []netip.AddrPort
}

// Select decides which endpoints of family f in these slices serve the port on
// node n.
//
// Ready endpoints serve, those that hints prefer for this node first (KEP-2433,
// KEP-4444). If none is ready, endpoints that are terminating but still serving
// take over (KEP-1669), whatever the hints. The local list is decided by itself
// and knows no hints.
func Select(port ServicePortName, f Family, from []Slice, n Node) Selection {
	return candidatesFor(port, f, from, n).selection(port.Protocol == UDP)
}

// selection chooses among the candidates, and lists those that flows may stay with
// if asked to.
func (all candidates) selection(flows bool) Selection {
	cluster := all.preferred()
	local := all.first(isReady|isLocal, isDraining|isLocal)
	sel := Selection{
		Cluster:  all.addresses(cluster),
		Local:    all.addresses(local),
		Anywhere: all.have(isReady) || all.have(isDraining),
		OnNode:   all.onNode(cluster, local),
	}
	if flows {
		sel.Flows = all.addresses(isServing, isReady)
	}
	return sel
}

// preferred is what an endpoint needs to serve traffic of the whole cluster.
// Hints count only if every ready endpoint has them and one names this node or
// zone: an incomplete set of hints would overload whoever has one.
func (all candidates) preferred() traits {
	for _, hint := range []struct{ none, here traits }{
		{withoutNodeHint, hintedForNode},
		{withoutZoneHint, hintedForZone},
	} {
		if !all.have(isReady|hint.none) && all.have(isReady|hint.here) {
			return isReady | hint.here
		}
	}
	return all.first(isReady, isDraining)
}

// first is the first of the wishes that some candidate meets, or else the last.
func (all candidates) first(wishes ...traits) traits {
	for _, wish := range wishes {
		if all.have(wish) {
			return wish
		}
	}
	return wishes[len(wishes)-1]
}

// have reports whether some candidate has all the wanted traits.
func (all candidates) have(want traits) bool {
	for i := range all {
		if all[i].has(want) {
			return true
		}
	}
	return false
}

// addresses lists the candidates that meet one of the wishes.
func (all candidates) addresses(wishes ...traits) []netip.AddrPort {
	n := 0
	for i := range all {
		if all[i].meets(wishes) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]netip.AddrPort, 0, n)
	for i := range all {
		if all[i].meets(wishes) {
			out = append(out, all[i].addr)
		}
	}
	return out
}

// onNode lists the addresses without ports of the local candidates that meet
// one of the two wishes.
func (all candidates) onNode(a, b traits) []netip.Addr {
	var out []netip.Addr
	for i := range all {
		c := &all[i]
		if !c.has(isLocal|a) && !c.has(isLocal|b) {
			continue
		}
		if addr := c.addr.Addr(); len(out) == 0 || out[len(out)-1] != addr {
			out = append(out, addr)
		}
	}
	return out
}
