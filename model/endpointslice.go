package model

import (
	"net/netip"
	"slices"
	"strings"
)

// EndpointSliceName names an EndpointSlice in the cluster.
type EndpointSliceName struct {
	Namespace, Name string
}

// String returns "namespace/name".
func (n EndpointSliceName) String() string { return n.Namespace + "/" + n.Name }

// EndpointSlice is the part of an EndpointSlice that the proxy uses: every endpoint
// offers every port. All addresses are of one family.
//
// A new field here or in [Endpoint] is decoded in package sync/source/cluster/protobuf and filled in
// by package sync/source/convert; one of EndpointSlice must also be in its equal method, or changes
// of it are ignored (a test finds fields that are not). candidates.go decides which of two
// endpoints with the same address counts; criteria.go decides the effect of the field on
// traffic.
type EndpointSlice struct {
	Name      EndpointSliceName
	Service   ServiceName
	Family    Family
	Ports     []EndpointPort
	Endpoints []Endpoint
	// Weight is how many connections each of the endpoints gets in relation to the
	// endpoints of other slices. Zero means unset and counts as 1.
	Weight uint16
	// Drained means that the endpoints get no new connections, while established flows
	// may continue. Weight does not matter then.
	Drained bool
	// Priority is 0, the best, to [MaxPriority]. The endpoints of worse ones stand by until none of
	// a better one serves.
	Priority uint8
	// Managed reports whether a controller of Kubernetes manages the slice. It explains
	// endpoints to people, and decides nothing.
	Managed bool
}

// weight returns the weight of each endpoint; drained endpoints have weight zero.
func (s *EndpointSlice) weight() uint16 {
	if s.Drained {
		return 0
	}
	return max(s.Weight, 1)
}

func (s *EndpointSlice) equal(o *EndpointSlice) bool {
	return s.Name == o.Name && s.Service == o.Service && s.sameForAll(o) && s.Managed == o.Managed &&
		slices.Equal(s.Endpoints, o.Endpoints)
}

// sameForAll reports whether everything but the endpoints themselves is the same for
// both slices.
func (s *EndpointSlice) sameForAll(o *EndpointSlice) bool {
	return s.Family == o.Family && s.Weight == o.Weight && s.Drained == o.Drained && s.Priority == o.Priority &&
		slices.Equal(s.Ports, o.Ports)
}

// EndpointPort is a port that all endpoints of an [EndpointSlice] offer.
type EndpointPort struct {
	Name     string
	Protocol Protocol
	Port     uint16
}

// Endpoint is one address of a Service with the properties that decide whether it
// may serve, or that are shown. Values are comparable.
type Endpoint struct {
	Addr netip.Addr
	// Ready, Serving and Terminating are the EndpointSlice conditions (KEP-1672),
	// with the API's defaults already filled in.
	Ready, Serving, Terminating bool
	// Node is the node that the endpoint runs on, if known.
	Node string
	// ZoneHints and NodeHints name the zones and nodes that should prefer this
	// endpoint (KEP-2433, KEP-4444).
	ZoneHints, NodeHints NameSet
}

// NameSet is a set of names as a comparable value: sorted, separated by commas,
// which cannot occur in the name of a zone or node.
type NameSet string

// NameSetOf returns the set of the given names; empty names are skipped.
func NameSetOf(names ...string) NameSet {
	if len(names) == 1 {
		return NameSet(names[0])
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	sorted = slices.DeleteFunc(sorted, func(n string) bool { return n == "" })
	return NameSet(strings.Join(sorted, ","))
}

// Has reports whether name is in the set. The empty name is in no set.
func (s NameSet) Has(name string) bool {
	for n := range strings.SplitSeq(string(s), ",") {
		if n == name {
			return name != ""
		}
	}
	return false
}
