package simulate

import (
	"net/netip"
	"time"
)

// Result is a packet's way and what becomes of it.
type Result struct {
	Packet Packet
	// In is the interface that it comes in by; empty if the node sends it.
	In string
	// ClientVia is the next hop towards the client; invalid if the client is on a link of the
	// node, or the node itself.
	ClientVia netip.Addr
	// ToNode tells that the packet asks for an address of the node itself.
	ToNode bool
	// Service is "namespace/name:port" of what it asks for, as the tables call it;
	// empty if that is no Service of theirs.
	Service string
	// Kind is what sort of address was asked: ClusterIP, NodePort, External.
	Kind string
	// Steps are what the packet meets, in order.
	Steps []Step
	// Outcomes are what may become of it, the most probable first. There are several
	// only where one was picked.
	Outcomes []Outcome
	// Unexplored is what was not looked at; Outcomes have the rest.
	Unexplored Unexplored
	// Affinity is set if the client is remembered.
	Affinity *Affinity
	// Flow is the connection that the packet belongs to; nil if it begins one. Flows
	// are others of the same client to the same address and port.
	Flow  *Flow
	Flows []Flow
	// IfNew is, with a Flow, what would become of a packet that began a connection,
	// but for what of that was not looked at.
	IfNew           []Outcome
	IfNewUnexplored Unexplored
	// Faults say where our tables are not as kube-vmap wrote them, Doubts which rules
	// of others may decide otherwise.
	Faults, Doubts []string
}

// Unexplored is what was not looked at, because picks have so many choices: more than 256 of
// one, or more than 4,096 together.
type Unexplored struct {
	// Endpoints are how many more the Service has.
	Endpoints int
	// Probability is that of what was not looked at.
	Probability float64
	// OtherPrograms tells that rules of other programs pick, too, of which no choice need be
	// like another.
	OtherPrograms bool
}

// Step is something that the packet met.
type Step struct {
	Hook  string `json:"hook"`
	Table string `json:"table,omitempty"`
	Chain string `json:"chain,omitempty"`
	Rule  uint64 `json:"rule,omitempty"` // handle
	Text  string `json:"text"`
	// Endpoint is the endpoint for which it is so, behind a pick; Alike is for how many
	// others it is much the same.
	Endpoint string `json:"for,omitempty"`
	Similar  int    `json:"alike,omitempty"`
}

// Verdict is what becomes of a packet.
type Verdict uint8

const (
	// VerdictNotService goes to the address itself: nothing translates it.
	VerdictNotService Verdict = iota
	// VerdictDelivered goes to an endpoint.
	VerdictDelivered
	// VerdictRefused is answered at once.
	VerdictRefused
	// VerdictDropped is taken away in silence.
	VerdictDropped
	// VerdictUnreachable has no route.
	VerdictUnreachable
	// VerdictUnknown is not known: something in a table of ours was not understood.
	VerdictUnknown
)

// String is the verdict in a word or two.
func (v Verdict) String() string {
	return [...]string{"not a Service", "delivered", "refused", "dropped", "unreachable", "unknown"}[v]
}

// Arrives reports whether the packet would arrive somewhere.
func (v Verdict) Arrives() bool { return v == VerdictNotService || v == VerdictDelivered }

// Outcome is what may become of a packet.
type Outcome struct {
	Verdict     Verdict
	Probability float64
	// Endpoints are where it may go, the most probable first.
	Endpoints []Endpoint
	// Masquerade tells that the endpoint sees an address of the node, and Why says why,
	// or why not.
	Masquerade bool
	Why        string
	// How is what it is refused with, why it cannot be routed or said, or who gets it of
	// many.
	How string
	// By is who refused or dropped it, and Because what that means, where the rule is one
	// of ours.
	By      *RuleRef
	Because string
}

// Endpoint is where a packet may go.
type Endpoint struct {
	Address     netip.AddrPort
	Probability float64
	Source      netip.Addr // that is seen there
	Local       bool       // it is the node itself
}

// RuleRef is a rule; without a handle, the policy of a chain.
type RuleRef struct {
	Table string `json:"table"`
	Chain string `json:"chain"`
	Rule  uint64 `json:"rule,omitempty"`
}

// Affinity is what the tables remember of a client.
type Affinity struct {
	Endpoint netip.AddrPort
	Expires  time.Duration
}
