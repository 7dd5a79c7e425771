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
	// Serves: there is none.
	Serves Reason = iota
	// WithoutPort: its EndpointSlice does not offer the port by name and protocol.
	WithoutPort
	// Duplicate: another entry for the same address and port number counts.
	Duplicate
	// NotServing: it is neither ready, nor still serving while it terminates.
	NotServing
	// OnOtherNode: it does not run on this node; of the local list only.
	OnOtherNode
	// Draining: it terminates and still serves, while others are ready.
	Draining
	// HintedToNodes: hints prefer endpoints for this node, and it is not one of them.
	HintedToNodes
	// HintedToZones: the same of this node's zone.
	HintedToZones
)

// String is the reason in one word; empty for [Serves].
func (r Reason) String() string {
	switch r {
	case Serves:
		return ""
	case WithoutPort:
		return "NoPort"
	case Duplicate:
		return "Duplicate"
	case NotServing:
		return "NotReady"
	case OnOtherNode:
		return "NotLocal"
	case Draining:
		return "Terminating"
	case HintedToNodes:
		return "OtherNodes"
	case HintedToZones:
		return "OtherZones"
	}
	return "Reason(" + strconv.Itoa(int(r)) + ")"
}

// Considered is an endpoint that slices name, and what became of it.
type Considered struct {
	// At is where it serves. Without the port ([WithoutPort]) the number is zero.
	At netip.AddrPort
	*Endpoint
	// Cluster and Local are why it is not in the list of [Selection] of that name.
	Cluster, Local Reason
	// Fallback tells that it serves although it terminates, since nobody is ready.
	Fallback bool
}

// Consider says of each endpoint of family f in these slices why [Select] does not
// have it serve the port on node n; sorted by address, of one address those that
// serve first.
//
// An address without the port is left out if another slice has it with the port:
// slices are divided by which ports their endpoints have.
func Consider(port ServicePortName, f Family, from []Slice, n Node) []Considered {
	o, p := offer{port.Port, port.Protocol, f}, places(from)
	r := roll{offer: o}
	r.call(p, &n)
	c := r.tally.choice(false)
	out := make([]Considered, 0, len(r.all))
	for i, who := range r.all {
		e := p.endpoint(who)
		cluster, local := c.reason(who.traits, c.cluster), c.reason(who.traits, c.local)
		if i > 0 && p.addr(who) == p.addr(r.all[i-1]) {
			cluster, local = Duplicate, Duplicate
		}
		terminates := !e.Ready && (cluster == Serves || local == Serves)
		out = append(out, Considered{p.addr(who), e, cluster, local, terminates})
	}
	out = append(out, p.withoutPort(o, out)...)
	slices.SortStableFunc(out, func(a, b Considered) int {
		return cmp.Or(a.At.Addr().Compare(b.At.Addr()), cmp.Compare(a.At.Port(), b.At.Port()))
	})
	return out
}

// reason is why somebody is not on the list of those who have the wanted traits.
func (c choice) reason(t, want traits) Reason {
	switch {
	case t.has(want):
		return Serves
	case !t.has(isReady) && !t.has(isDraining):
		return NotServing
	case want.has(isLocal) && !t.has(isLocal):
		return OnOtherNode
	case !t.has(isReady):
		return Draining
	case want.has(hintedForNode):
		return HintedToNodes
	}
	return HintedToZones
}

// withoutPort are the endpoints whose slices do not make the offer; each address
// once, and none that somebody among those who make it has.
func (p places) withoutPort(o offer, with []Considered) []Considered {
	known := make(map[netip.Addr]bool, len(with))
	for _, c := range with {
		known[c.At.Addr()] = true
	}
	var out []Considered
	for i := range p {
		if s := &p[i]; s.Family != o.family || o.in(s) {
			continue
		}
		for k := range p[i].Endpoints {
			if e := &p[i].Endpoints[k]; !known[e.Addr] {
				known[e.Addr] = true
				out = append(out, Considered{netip.AddrPortFrom(e.Addr, 0), e, WithoutPort, WithoutPort, false})
			}
		}
	}
	return out
}

// in reports whether the slice makes the offer.
func (o offer) in(s *Slice) bool {
	for range o.numbers(s) {
		return true
	}
	return false
}
