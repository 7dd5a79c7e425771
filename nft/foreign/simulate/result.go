package simulate

import (
	"net/netip"
	"time"

	"kube-vmap/nft/foreign/simulate/path"
)

// A Result is the simulated path of a packet and its outcomes.
type Result struct {
	Packet Packet
	// In is the interface that the packet comes in by; empty if the node sends it.
	In string
	// ClientVia is the next hop towards the client; invalid if the client is on a link of
	// the node, or the node itself.
	ClientVia netip.Addr
	// ToNode is true if the destination is an address of the node itself.
	ToNode bool
	// Service, Kind and Steps are noted, of all walks together, and so are Affinity and Faults.
	Service, Kind string
	Steps         []path.Step
	Affinity      *Affinity
	Faults        []string
	// Outcomes are the possible outcomes, the most probable first. There are several only
	// if something was picked.
	Outcomes []Outcome
	// Unexplored is what was not simulated.
	Unexplored path.Unexplored
	// Flow is the connection that the packet belongs to; nil if it begins one. Flows are
	// other connections of the client to the same address and port.
	Flow  *Flow
	Flows []Flow
	// IfNew is set with Flow: the outcomes of a packet that begins a new connection.
	IfNew           []Outcome
	IfNewUnexplored path.Unexplored
	Doubts          []Doubt
	// NotFollowed names rules that packets pass and that the simulation does not know.
	NotFollowed []string
}

// A Verdict is what happens to a packet.
type Verdict uint8

const (
	// VerdictNotService means that the packet goes to the address itself, without a translation.
	VerdictNotService Verdict = iota
	// VerdictDelivered means that the packet goes to an endpoint.
	VerdictDelivered
	// VerdictRefused means that the packet is answered with a refusal.
	VerdictRefused
	// VerdictDropped means that the packet is dropped without an answer.
	VerdictDropped
	// VerdictUnreachable means that the packet has no route.
	VerdictUnreachable
	// VerdictUnknown means that something in a table of the caller was not understood.
	VerdictUnknown
)

// String returns the verdict in a word or two.
func (v Verdict) String() string {
	return [...]string{"not a Service", "delivered", "refused", "dropped", "unreachable", "unknown"}[v]
}

// Arrives reports whether the packet would arrive anywhere.
func (v Verdict) Arrives() bool { return v == VerdictNotService || v == VerdictDelivered }

// An Outcome is one thing that may happen to a packet.
type Outcome struct {
	Verdict     Verdict
	Probability float64
	// Endpoints are the possible destinations, the most probable first.
	Endpoints []Endpoint
	// Stopped are the destinations of packets that do not arrive.
	Stopped []netip.AddrPort
	// Masquerade is true if the endpoint sees an address of the node. Why is what is noted of the
	// source.
	Masquerade bool
	Why        string
	// How is the answer of a refusal, or why there is no route or no prediction.
	How string
	// By is the rule or policy that refused or dropped the packet. Reason and Fault are noted for
	// those of the caller.
	By            path.RuleRef
	Reason, Fault string
	Unserved      bool
}

// An Endpoint is a possible destination.
type Endpoint struct {
	Address     netip.AddrPort
	Probability float64
	Source      netip.Addr // that is seen there
	Local       bool       // it is the node itself
	// Out is the interface by which the packet leaves the node, Via the next hop if the endpoint is on no
	// link. Both are zero if there are several, and for the node itself.
	Out Link
	Via netip.Addr
	// Reply is the way back.
	Reply Reply
}

// Affinity is the endpoint that a rule set remembers for a client.
type Affinity struct {
	Endpoint netip.AddrPort
	Expires  time.Duration
}
