package model

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
)

// Reason is why an endpoint does not serve a Service port on a node.
type Reason uint8

// The reasons, in the order in which they are looked for: what comes first would
// keep the endpoint out whatever else were different.
const (
	// ReasonNone: there is none.
	ReasonNone Reason = iota
	// ReasonNoPort: its EndpointSlice does not offer the port by name and protocol.
	ReasonNoPort
	// ReasonDuplicate: another entry for the same address and port number counts.
	ReasonDuplicate
	// ReasonNotReady: it is neither ready, nor still serving while it terminates.
	ReasonNotReady
	// ReasonNotLocal: it does not run on this node; of the local list only.
	ReasonNotLocal
	// ReasonServingTerminating: it terminates and still serves, while others are ready.
	ReasonServingTerminating
	// ReasonOtherNodes: hints prefer endpoints for this node, and it is not one of them.
	ReasonOtherNodes
	// ReasonOtherZones: the same of this node's zone.
	ReasonOtherZones
)

// String is the reason in one word; empty for [ReasonNone].
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return ""
	case ReasonNoPort:
		return "NoPort"
	case ReasonDuplicate:
		return "Duplicate"
	case ReasonNotReady:
		return "NotReady"
	case ReasonNotLocal:
		return "NotLocal"
	case ReasonServingTerminating:
		return "Terminating"
	case ReasonOtherNodes:
		return "OtherNodes"
	case ReasonOtherZones:
		return "OtherZones"
	}
	return "Reason(" + strconv.Itoa(int(r)) + ")"
}

// EndpointExplanation is an endpoint that slices name, and what became of it.
type EndpointExplanation struct {
	// AddrPort is where it serves. Without the port ([ReasonNoPort]) the number is zero.
	AddrPort netip.AddrPort
	*Endpoint
	// Cluster and Local are why it is not in the list of [selectedEndpoints] of that name.
	Cluster, Local Reason
	// Fallback tells that it serves although it terminates, since nobody is ready.
	Fallback bool
}

// ExplainSelection says of each endpoint of family f in these slices why [selectEndpoints] does not
// have it serve the port on node n; sorted by address, of one address those that
// serve first.
//
// An address without the port is left out if another slice has it with the port:
// slices are divided by which ports their endpoints have.
func ExplainSelection(port ServicePortName, f Family, from []EndpointSlice, n Node) []EndpointExplanation {
	o, p := offer{port.Port, port.Protocol, f}, places(from)
	r := roll{offer: o}
	r.call(p, &n)
	c := r.tally.choice(false)
	out := make([]EndpointExplanation, 0, len(r.all))
	for i, who := range r.all {
		e := p.endpoint(who)
		cluster, local := c.reason(who.traits, c.cluster), c.reason(who.traits, c.local)
		if i > 0 && p.addr(who) == p.addr(r.all[i-1]) {
			cluster, local = ReasonDuplicate, ReasonDuplicate
		}
		terminates := !e.Ready && (cluster == ReasonNone || local == ReasonNone)
		out = append(out, EndpointExplanation{p.addr(who), e, cluster, local, terminates})
	}
	out = append(out, p.withoutPort(o, out)...)
	slices.SortStableFunc(out, func(a, b EndpointExplanation) int {
		return cmp.Or(a.AddrPort.Addr().Compare(b.AddrPort.Addr()), cmp.Compare(a.AddrPort.Port(), b.AddrPort.Port()))
	})
	return out
}

// reason is why somebody is not on the list of those who have the wanted traits.
func (c choice) reason(t, want traits) Reason {
	switch {
	case t.has(want):
		return ReasonNone
	case !t.has(isReady) && !t.has(isServingTerminating):
		return ReasonNotReady
	case want.has(isLocal) && !t.has(isLocal):
		return ReasonNotLocal
	case !t.has(isReady):
		return ReasonServingTerminating
	case want.has(hintedForNode):
		return ReasonOtherNodes
	}
	return ReasonOtherZones
}

// withoutPort are the endpoints whose slices do not make the offer; each address
// once, and none that somebody among those who make it has.
func (p places) withoutPort(o offer, with []EndpointExplanation) []EndpointExplanation {
	known := make(map[netip.Addr]bool, len(with))
	for _, c := range with {
		known[c.AddrPort.Addr()] = true
	}
	var out []EndpointExplanation
	for i := range p {
		if s := &p[i]; s.Family != o.family || o.in(s) {
			continue
		}
		for k := range p[i].Endpoints {
			if e := &p[i].Endpoints[k]; !known[e.Addr] {
				known[e.Addr] = true
				out = append(out, EndpointExplanation{netip.AddrPortFrom(e.Addr, 0), e, ReasonNoPort, ReasonNoPort, false})
			}
		}
	}
	return out
}

// in reports whether the slice makes the offer.
func (o offer) in(s *EndpointSlice) bool {
	for range o.numbers(s) {
		return true
	}
	return false
}
