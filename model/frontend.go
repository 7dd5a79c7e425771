package model

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
)

// Match is the destination of the packets that belong to a frontend. It is comparable and
// the frontend's identity: no two frontends of a node have the same Match. Its fields
// have no padding, so maps hash and compare them in one piece.
type Match struct {
	Addr     netip.Addr // invalid for a node port, which is at any address of the node
	Port     uint16
	Family   Family
	Protocol Protocol
}

func (m Match) nodePort() bool { return !m.Addr.IsValid() }

// String returns "10.96.0.10:53/udp", "[fd00::a]:53/udp", or "*:30053/udp" for a
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
	if c := cmp.Compare(m.Family, o.Family); c != 0 {
		return c
	}
	if c := m.Addr.Compare(o.Addr); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(m.Protocol, o.Protocol), cmp.Compare(m.Port, o.Port))
}

// Kind is the origin of a frontend's address.
//
// A new kind needs, besides its constant and name here: its frontends in frontends.go,
// its precedence in claims.go, its weight in budget.go, and its elements in package nft
// (search for KindExternalIP).
type Kind uint8

// The kinds of frontends.
const (
	KindClusterIP Kind = iota
	KindNodePort
	KindExternalIP
	KindLoadBalancerIP
)

// String returns the name that the Service API uses.
func (k Kind) String() string { return nameOf(k, "Kind", kindNames[:]) }

var kindNames = [...]string{
	KindClusterIP: "ClusterIP", KindNodePort: "NodePort",
	KindExternalIP: "ExternalIP", KindLoadBalancerIP: "LoadBalancerIP",
}

// Verdict is what happens to a connection to a frontend.
type Verdict uint8

// The verdicts.
const (
	// VerdictBalance sends it to one of the endpoints that the policy selects.
	VerdictBalance Verdict = iota
	// VerdictReject refuses it, TCP with a reset and other protocols with "port
	// unreachable": the cluster has no endpoint for it, and it is not held, or no longer.
	VerdictReject
	// VerdictDrop drops it silently: there are endpoints, but none that this node may
	// use.
	VerdictDrop
	// VerdictHold drops the first packets of a connection until the cluster has an endpoint: the
	// client sends them again.
	VerdictHold
	// VerdictElsewhere is of a frontend that only other nodes serve: it is not programmed, but no other
	// Service gets its match.
	VerdictElsewhere
)

// Masquerade selects the connections whose source becomes the node's address.
type Masquerade uint8

// The kinds of masquerading.
const (
	// MasqueradeNever keeps the client's address.
	MasqueradeNever Masquerade = iota
	// MasqueradeOffPod keeps the addresses of pods and replaces all others.
	MasqueradeOffPod
	// MasqueradeAlways replaces every client's address.
	MasqueradeAlways
)

// Frontend is one address and port of a Service on this node, with the traffic
// policy already applied. Its slices are shared and must not be changed.
type Frontend struct {
	Match   Match
	Kind    Kind
	Service ServicePortName
	// Policy selects the list of the pool. With [PolicyLocal], unless Kind is
	// [KindClusterIP], pods and the node itself may still use all endpoints: for them
	// the node acts in place of the load balancer.
	Policy TrafficPolicy
	// Verdict is for the connections that Policy applies to.
	Verdict    Verdict
	Masquerade Masquerade
	// Restricted reports whether only connections from Sources are accepted, but not from Denied.
	Restricted      bool
	Sources, Denied []netip.Prefix
	// Pool is never nil. Only the frontend of the ClusterIP owns it; the others depend
	// only on its key and on how many slots its endpoints take.
	Pool *Pool
}

// Served reports whether some connections to the frontend reach an endpoint.
func (f *Frontend) Served() bool { return f.Verdict == VerdictBalance || f.BypassesPolicy() }

// BypassesPolicy reports whether pods and the node may use all endpoints in spite of
// [PolicyLocal].
func (f *Frontend) BypassesPolicy() bool {
	return f.Kind != KindClusterIP && f.Policy == PolicyLocal && len(f.Pool.Cluster) > 0 && f.here()
}

// AnswersPing reports whether its address answers echo requests because of it: if any client can
// connect to it.
func (f *Frontend) AnswersPing() bool { return f.Verdict == VerdictBalance && !f.Restricted }

// here reports whether this node serves the frontend, if there is one.
func (f *Frontend) here() bool { return f != nil && f.Verdict != VerdictElsewhere }

// IsClusterIP reports whether it is the frontend of a ClusterIP, which owns the pool.
func (f *Frontend) IsClusterIP() bool { return f.Kind == KindClusterIP }

// equal reports whether both frontends are programmed alike.
func (f *Frontend) equal(o *Frontend) bool {
	return f.Match == o.Match && f.Kind == o.Kind && f.Service == o.Service &&
		f.Policy == o.Policy && f.Verdict == o.Verdict && f.Masquerade == o.Masquerade &&
		f.Restricted == o.Restricted && slices.Equal(f.Sources, o.Sources) && slices.Equal(f.Denied, o.Denied) &&
		(f.IsClusterIP() && f.Pool.equal(o.Pool) || !f.IsClusterIP() && f.Pool.equalForSharers(o.Pool))
}
