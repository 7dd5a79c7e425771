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

// String is "namespace/name".
func (n EndpointSliceName) String() string { return n.Namespace + "/" + n.Name }

// EndpointSlice is what the proxy reads of an EndpointSlice: every endpoint offers
// every port. All addresses are of one family.
type EndpointSlice struct {
	Name      EndpointSliceName
	Service   ServiceName
	Family    Family
	Ports     []EndpointPort
	Endpoints []Endpoint
}

// EndpointPort is a port that all endpoints of a [EndpointSlice] offer.
type EndpointPort struct {
	Name     string
	Protocol Protocol
	Port     uint16
}

// Endpoint is one address behind a Service with what decides whether it may
// serve. Values are comparable.
type Endpoint struct {
	Addr netip.Addr
	// Ready, Serving and Terminating are the EndpointSlice conditions
	// (KEP-1672), with the API's defaults already filled in.
	Ready, Serving, Terminating bool
	// Node is the node the endpoint runs on; empty if that is not known.
	Node string
	// ZoneHints and NodeHints name the zones and nodes that should prefer this
	// endpoint (KEP-2433, KEP-4444).
	ZoneHints, NodeHints NameSet
}

// NameSet is a set of names as a comparable value: sorted, separated by commas,
// which no name of a zone or a node can contain.
type NameSet string

// NameSetOf makes the set of the given names; empty names are left out.
func NameSetOf(names ...string) NameSet {
	if len(names) == 1 {
		return NameSet(names[0])
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	sorted = slices.DeleteFunc(sorted, func(n string) bool { return n == "" })
	return NameSet(strings.Join(sorted, ","))
}

// Has reports whether name is in the set.
func (s NameSet) Has(name string) bool {
	for n := range strings.SplitSeq(string(s), ",") {
		if n == name {
			return name != ""
		}
	}
	return false
}

// Node is what the proxy must know of the node it runs on. Values are
// comparable.
type Node struct {
	Name string
	Zone string // label topology.kubernetes.io/zone; empty if there is none
	// Addrs are the node's addresses, the primary one of each family; invalid
	// where there is none.
	Addrs [len(Families)]netip.Addr
	// PodCIDRs are where the node's pods have their addresses from; invalid
	// where there is none.
	PodCIDRs [len(Families)]netip.Prefix
}

// hosts reports whether the endpoint runs on the node. An endpoint without a
// node name is nowhere, and a node without a name hosts nothing.
func (n *Node) hosts(e *Endpoint) bool { return n.Name != "" && e.Node == n.Name }
