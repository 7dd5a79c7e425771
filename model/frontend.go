package model

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
)

// Match is what a packet must carry to meet a frontend. It is comparable and
// the frontend's identity: no two frontends of a node have the same Match.
type Match struct {
	Family   Family
	Addr     netip.Addr // invalid for a node port, which any node address serves
	Protocol Protocol
	Port     uint16
}

// String is "10.96.0.10:53/udp", "[fd00::a]:53/udp", or "*:30053/udp" for a
// node port.
func (m Match) String() string {
	host := "*:" + strconv.Itoa(int(m.Port))
	if m.Addr.IsValid() {
		host = netip.AddrPortFrom(m.Addr, m.Port).String()
	}
	return host + "/" + m.Protocol.String()
}

// Compare orders matches by family, address, protocol and port.
func (m Match) Compare(o Match) int {
	return cmp.Or(
		cmp.Compare(m.Family, o.Family),
		m.Addr.Compare(o.Addr),
		cmp.Compare(m.Protocol, o.Protocol),
		cmp.Compare(m.Port, o.Port),
	)
}

// Kind is where a frontend's address comes from.
type Kind uint8

// The kinds of frontends.
const (
	ClusterIP Kind = iota
	NodePort
	ExternalIP
	LoadBalancerIP
)

// String is the kind in the words of the Service API.
func (k Kind) String() string {
	switch k {
	case ClusterIP:
		return "ClusterIP"
	case NodePort:
		return "NodePort"
	case ExternalIP:
		return "ExternalIP"
	case LoadBalancerIP:
		return "LoadBalancerIP"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Verdict is what happens to a connection that meets a frontend.
type Verdict uint8

const (
	// Balance picks one of the frontend's endpoints at random.
	Balance Verdict = iota
	// Reject answers port unreachable: there is no endpoint anywhere.
	Reject
	// Drop stays silent: there are endpoints, but none this node may use.
	Drop
)

// Masquerade says which connections get the node's address as their source.
type Masquerade uint8

const (
	// MasqueradeNever keeps the client's address.
	MasqueradeNever Masquerade = iota
	// MasqueradeOffPod keeps the address of pods and replaces any other.
	MasqueradeOffPod
	// MasqueradeAlways replaces every client's address.
	MasqueradeAlways
)

// Frontend is one address and port of a Service on this node, with the policy
// already applied. Slices are shared and must not be changed.
type Frontend struct {
	Match   Match
	Kind    Kind
	Service ServicePortName
	Verdict Verdict
	// Endpoints serve the frontend, each with the same probability; sorted,
	// without duplicates, and empty unless Verdict is Balance.
	Endpoints  []netip.AddrPort
	Masquerade Masquerade
	// Hairpin lists the endpoint addresses on this node. A connection from one
	// of them to itself must be masqueraded, or its answer would never pass the
	// node and be translated back. Sorted, without duplicates.
	Hairpin []netip.Addr
}

// equal reports whether both frontends mean the same.
func (f *Frontend) equal(o *Frontend) bool {
	return f.Match == o.Match && f.Kind == o.Kind && f.Service == o.Service &&
		f.Verdict == o.Verdict && f.Masquerade == o.Masquerade &&
		slices.Equal(f.Endpoints, o.Endpoints) && slices.Equal(f.Hairpin, o.Hairpin)
}
