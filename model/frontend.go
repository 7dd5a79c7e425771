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

// nodePort reports whether any address of the node serves it.
func (m Match) nodePort() bool { return !m.Addr.IsValid() }

// String is "10.96.0.10:53/udp", "[fd00::a]:53/udp", or "*:30053/udp" for a
// node port.
func (m Match) String() string {
	host := "*:" + strconv.Itoa(int(m.Port))
	if !m.nodePort() {
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
	KindClusterIP Kind = iota
	KindNodePort
	KindExternalIP
	KindLoadBalancerIP
)

// String is the kind in the words of the Service API.
func (k Kind) String() string {
	switch k {
	case KindClusterIP:
		return "ClusterIP"
	case KindNodePort:
		return "NodePort"
	case KindExternalIP:
		return "ExternalIP"
	case KindLoadBalancerIP:
		return "LoadBalancerIP"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Verdict is what happens to a connection that meets a frontend.
type Verdict uint8

const (
	// VerdictBalance picks one of the endpoints that the policy leaves.
	VerdictBalance Verdict = iota
	// VerdictReject answers port unreachable: there is no endpoint anywhere.
	VerdictReject
	// VerdictDrop stays silent: there are endpoints, but none this node may use.
	VerdictDrop
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
	// Policy says which endpoints of the pool serve. Where it is [PolicyLocal]
	// and Kind is not [KindClusterIP], pods and the node itself are served by all of
	// them nevertheless: for them the node stands in for the load balancer.
	Policy TrafficPolicy
	// Verdict is what happens to those whom the policy leaves no endpoint.
	Verdict    Verdict
	Masquerade Masquerade
	// Restricted tells that only connections from Sources may come in.
	Restricted bool
	Sources    []netip.Prefix
	// Pool is never nil. Only the frontend of the ClusterIP owns it: to the others
	// it matters where it is and how many endpoints it has.
	Pool *Pool
}

// Served reports whether some connection to the frontend reaches an endpoint.
func (f *Frontend) Served() bool { return f.Verdict == VerdictBalance || f.ShortCircuit() }

// ShortCircuit reports whether pods and the node are served by all endpoints,
// whatever the policy does to others.
func (f *Frontend) ShortCircuit() bool {
	return f.Kind != KindClusterIP && f.Policy == PolicyLocal && len(f.Pool.Cluster) > 0
}

// OwnsPool reports whether the frontend owns its pool.
func (f *Frontend) OwnsPool() bool { return f.Kind == KindClusterIP }

// equal reports whether both frontends mean the same.
func (f *Frontend) equal(o *Frontend) bool {
	return f.Match == o.Match && f.Kind == o.Kind && f.Service == o.Service &&
		f.Policy == o.Policy && f.Verdict == o.Verdict && f.Masquerade == o.Masquerade &&
		f.Restricted == o.Restricted && slices.Equal(f.Sources, o.Sources) &&
		(f.OwnsPool() && f.Pool.equal(o.Pool) || !f.OwnsPool() && f.Pool.looksLike(o.Pool))
}
