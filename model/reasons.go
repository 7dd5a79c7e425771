package model

import (
	"cmp"
	"net/netip"
	"slices"
)

// Reason is why an endpoint does not serve a Service port on a node.
//
// Commands and the page show its name. They list all reasons from ReasonNoPort to
// ReasonOtherZones, so a new one goes between these; its description belongs to the
// places that a search for OtherZones finds.
type Reason uint8

// The reasons, in the order of the checks: each excludes the endpoint whatever the later
// ones are.
const (
	// ReasonNone means that the endpoint serves.
	ReasonNone Reason = iota
	// ReasonNoPort: its EndpointSlice does not have the port's name and protocol.
	ReasonNoPort
	// ReasonDuplicate: another entry for the same address and port number is used.
	ReasonDuplicate
	// ReasonNotReady: it is not ready, and does not serve while it terminates either.
	ReasonNotReady
	// ReasonDrained: its EndpointSlice has weight zero.
	ReasonDrained
	// ReasonStandBy: an endpoint of a better priority serves.
	ReasonStandBy
	// ReasonNotLocal: it does not run on this node. Only for the local list.
	ReasonNotLocal
	// ReasonServingTerminating: it terminates and still serves, but others are ready, or connections wait.
	ReasonServingTerminating
	// ReasonOtherNodes: some endpoints have hints for this node, but not this one.
	ReasonOtherNodes
	// ReasonOtherZones: some endpoints have hints for this node's zone, but not this one.
	ReasonOtherZones
)

// String returns the reason in one word, and nothing for [ReasonNone].
func (r Reason) String() string { return nameOf(r, "Reason", reasonNames[:]) }

var reasonNames = [...]string{
	ReasonNone:               "",
	ReasonNoPort:             "NoPort",
	ReasonDuplicate:          "Duplicate",
	ReasonNotReady:           "NotReady",
	ReasonDrained:            "Drained",
	ReasonStandBy:            "StandBy",
	ReasonNotLocal:           "NotLocal",
	ReasonServingTerminating: "Terminating",
	ReasonOtherNodes:         "OtherNodes",
	ReasonOtherZones:         "OtherZones",
}

// EndpointExplanation is an endpoint of an EndpointSlice with the reasons why it
// serves a port or not.
type EndpointExplanation struct {
	// AddrPort is where it serves. With [ReasonNoPort] the port number is zero.
	AddrPort netip.AddrPort
	*Endpoint
	// Weight is its slice's weight, zero if it is drained. Managed is its slice's, too.
	Weight  uint16
	Managed bool
	// Cluster and Local are why it is not in that list of [Pool].
	Cluster, Local Reason
	// Fallback reports whether it serves only because no endpoint is ready.
	Fallback bool
}

// ExplainSelection explains for each endpoint of family f in these slices why it
// serves the port on node n or not. The result is sorted by address and port; of
// duplicates the one that is used comes first. Avoided is the pool's list: others may serve because
// of them, while they have no reason themselves. If connections are held, held is true.
//
// An endpoint without the port is not listed if another slice has its address with
// the port, because the EndpointSlice controller puts endpoints with different ports
// into different slices.
func ExplainSelection(
	port ServicePortName, f Family, from []EndpointSlice, n Node, avoided []netip.AddrPort, held bool,
) []EndpointExplanation {
	key := portKey{port.Port, port.Protocol, f}
	all, _, _ := endpointSlices(from).active(key, avoided)
	x := endpointIndex{portKey: key}
	x.rebuild(all, &n)
	c := x.counts.criteria(needs{held: held})
	out := make([]EndpointExplanation, 0, len(x.candidates))
	for i, candidate := range x.candidates {
		e := all.endpoint(candidate)
		cluster, local := c.reason(candidate.traits, c.cluster), c.reason(candidate.traits, c.local)
		if i > 0 && all.addrPort(candidate) == all.addrPort(x.candidates[i-1]) {
			cluster, local = ReasonDuplicate, ReasonDuplicate
		} else if all[candidate.slice].Drained && (e.Ready || e.Serving && e.Terminating) {
			cluster, local = ReasonDrained, ReasonDrained
		}
		fallback := !e.Ready && (cluster == ReasonNone || local == ReasonNone)
		out = append(out, EndpointExplanation{
			all.addrPort(candidate), e, all[candidate.slice].weight(),
			all[candidate.slice].Managed, cluster, local, fallback,
		})
	}
	out = append(out, endpointSlices(from).standingBy(key, out, avoided)...)
	out = append(out, endpointSlices(from).withoutPort(key, out)...)
	slices.SortStableFunc(out, func(a, b EndpointExplanation) int {
		return cmp.Or(a.AddrPort.Addr().Compare(b.AddrPort.Addr()), cmp.Compare(a.AddrPort.Port(), b.AddrPort.Port()))
	})
	return out
}

// reason returns why a candidate with traits t is not in the list that needs the traits
// want.
func (c criteria) reason(t, want traits) Reason {
	switch {
	case t.hasAll(want):
		return ReasonNone
	case !t.hasAny(isReady, isServingTerminating):
		return ReasonNotReady
	case want.hasAll(isLocal) && !t.hasAll(isLocal):
		return ReasonNotLocal
	case !t.hasAll(isReady):
		return ReasonServingTerminating
	case want.hasAll(hintedForNode):
		return ReasonOtherNodes
	}
	return ReasonOtherZones
}

// standingBy returns the endpoints with the port that are not among the active ones.
func (s endpointSlices) standingBy(
	key portKey, active []EndpointExplanation, avoided []netip.AddrPort,
) []EndpointExplanation {
	listed := make(map[netip.AddrPort]bool, len(active))
	for _, e := range active {
		listed[e.AddrPort] = true
	}
	var out []EndpointExplanation
	for i := range s {
		for number := range key.portNumbers(&s[i]) {
			for k := range s[i].Endpoints {
				e := &s[i].Endpoints[k]
				at := netip.AddrPortFrom(e.Addr, number)
				if listed[at] {
					continue
				}
				listed[at] = true
				reason := ReasonStandBy
				switch usable := e.Ready || e.Serving && e.Terminating; {
				case !usable:
					reason = ReasonNotReady
				case containsSorted(avoided, at):
					reason = ReasonNone
				}
				out = append(out, EndpointExplanation{at, e, s[i].weight(), s[i].Managed, reason, reason, false})
			}
		}
	}
	return out
}

// withoutPort returns the endpoints in slices without the port, each address once,
// except for addresses that are among those with the port.
func (s endpointSlices) withoutPort(key portKey, with []EndpointExplanation) []EndpointExplanation {
	listed := make(map[netip.Addr]bool, len(with))
	for _, e := range with {
		listed[e.AddrPort.Addr()] = true
	}
	var out []EndpointExplanation
	for i := range s {
		if s[i].Family != key.family || key.offeredBy(&s[i]) {
			continue
		}
		for k := range s[i].Endpoints {
			if e := &s[i].Endpoints[k]; !listed[e.Addr] {
				listed[e.Addr] = true
				out = append(out, EndpointExplanation{
					netip.AddrPortFrom(e.Addr, 0), e, s[i].weight(), s[i].Managed, ReasonNoPort,
					ReasonNoPort, false,
				})
			}
		}
	}
	return out
}
