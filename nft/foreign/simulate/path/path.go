// Package path has what is shown of the path of a packet: of a simulation, and in the answers of
// explain. Programs on other platforms read these, so this package imports
// nothing of the node.
package path

import (
	"net/netip"
	"strconv"
)

// A Step is something that the packet met.
type Step struct {
	Hook  string `json:"hook"`
	Table string `json:"table,omitempty"`
	Chain string `json:"chain,omitempty"`
	Rule  uint64 `json:"rule,omitempty"` // handle
	Back  bool   `json:"back,omitempty"` // of the endpoint's reply
	Kind  string `json:"kind,omitempty"` // what happens: lookup, pick, destination, ...
	// Means is what happens to packets in the chain, if it is ours (nft.Meaning).
	Means string `json:"means,omitempty"`
	To    string `json:"to,omitempty"` // the address of a translation
	Text  string `json:"text"`
	// Endpoint is set for steps after a pick: the endpoint that they are for. Similar is
	// the number of other endpoints with similar steps.
	Endpoint string `json:"for,omitempty"`
	Similar  int    `json:"alike,omitempty"`
}

// Kinds of steps.
const (
	StepLookup        = "lookup" // a map has the packet, and maps it to another chain
	StepMiss          = "miss"   // a map does not have it
	StepJump          = "jump"
	StepPick          = "pick"
	StepRemember      = "remember" // what is remembered of the client
	StepDestination   = "destination"
	StepSource        = "source"
	StepClusterIP     = "cluster-ip"
	StepMark          = "mark" // for masquerade
	StepKeep          = "keep" // the client's address
	StepMasquerade    = "masquerade"
	StepTranslateBack = "translate-back"
	StepRestore       = "restore"
	StepFlowtable     = "flowtable"
	StepReject        = "reject"
	StepDrop          = "drop"
	StepUnreachable   = "unreachable"
	StepFault         = "fault"
)

// A RuleRef refers to a rule; without a handle, to the policy of a chain.
type RuleRef struct {
	Table string `json:"table"`
	Chain string `json:"chain"`
	Rule  uint64 `json:"rule,omitempty"`
	Text  string `json:"text,omitempty"` // of the rule of another program, as nft prints it
}

// String returns the reference as in "table ip filter, chain INPUT, rule handle 3".
func (r RuleRef) String() string {
	s := "table " + r.Table + ", chain " + r.Chain
	if r.Rule != 0 {
		s += ", rule handle " + strconv.FormatUint(r.Rule, 10)
	}
	return s
}

// Unexplored is what was not simulated, because picks have too many results: more than 1,024
// for one, or more than 4,096 together.
type Unexplored struct {
	// Endpoints is the number of slots that the Service has in addition: of as many
	// endpoints, unless one has several.
	Endpoints int `json:"endpoints,omitempty"`
	// Probability is the probability of all outcomes that were not simulated.
	Probability float64 `json:"probability"`
	// OthersPick is true if rules of other programs pick, too; any of their results may
	// differ from the others.
	OthersPick bool `json:"othersPick,omitempty"`
}

// Verdicts of packets and of replies.
const (
	VerdictNotService  = "not a Service" // it goes to the address itself, without a translation
	VerdictDelivered   = "delivered"     // it goes to an endpoint; a reply: to the client, from the address that it asked
	VerdictRefused     = "refused"       // its sender gets a refusal
	VerdictDropped     = "dropped"       // without an answer
	VerdictUnreachable = "unreachable"   // it has no route
	VerdictUnknown     = "unknown"       // something in a table of our own was not understood
	// VerdictNotAccepted is of a reply that comes from another address, or does not go to the client.
	VerdictNotAccepted = "not accepted"
)

// Reasons why rules of kube-vmap reject or drop packets.
const (
	ReasonNoLocalEndpoint = "NoLocalEndpoint" // others exist, and the policy is Local
	ReasonNoEndpoint      = "NoEndpoint"      // none may serve the packet
	ReasonHeld            = "Held"            // the same, and the client is to try again
	ReasonSourceRanges    = "SourceRanges"    // they do not have the client
	ReasonDenied          = "Denied"          // a denied source range has the client
	ReasonNoPort          = "NoPort"          // the Service does not have it
	ReasonTranslated      = "Translated"      // another program did that, to a ClusterIP
	ReasonNoService       = "NoService"       // none has the address, which is one of a ClusterIP
	ReasonInvalid         = "Invalid"         // connection tracking cannot place the packet
	ReasonFault           = "Fault"           // the tables are not as kube-vmap writes them
)

// Outcome is what may happen to a packet.
type Outcome struct {
	Verdict     string  `json:"verdict"`
	Probability float64 `json:"probability"`
	// Endpoints are the possible destinations, the most probable first; Stopped are the ones of packets that
	// do not arrive.
	Endpoints []Endpoint       `json:"endpoints,omitempty"`
	Stopped   []netip.AddrPort `json:"-"`
	// Masquerade reports whether the endpoint sees an address of the node, Why is the reason for it or
	// against it.
	Masquerade bool    `json:"masquerade"`
	Why        string  `json:"why,omitempty"`
	How        string  `json:"how,omitempty"` // of refused, unreachable, unknown
	By         RuleRef `json:"by,omitzero"`
	// Reason is why a rule of our own rejects or drops it, with the Fault that it may be about; NoEndpoint
	// reports whether that is because nothing serves it.
	Reason     string `json:"reason,omitempty"`
	Fault      string `json:"fault,omitempty"`
	NoEndpoint bool   `json:"-"`
	// Readers add Because, which is both in words, and the field of the Service that causes it.
	Because string `json:"because,omitempty"`
	Field   string `json:"field,omitempty"`
}

// Arrives reports whether the packet arrives anywhere.
func (o *Outcome) Arrives() bool { return Arrives(o.Verdict) }

// Arrives reports whether a packet with a verdict arrives anywhere.
func Arrives(verdict string) bool { return verdict == VerdictNotService || verdict == VerdictDelivered }

// Endpoint is where a packet may go.
type Endpoint struct {
	Address     netip.Addr `json:"address"`
	Port        uint16     `json:"port"`
	Probability float64    `json:"probability"`
	Sees        netip.Addr `json:"sees"` // the client's address there
	Node        bool       `json:"thisNode,omitempty"`
	// Out is the interface by which the packet leaves the node, NextHop where it sends it then; empty if
	// there are several, if the endpoint is on a link, and in answers of versions that do not have them.
	Out     string     `json:"out,omitempty"`
	NextHop netip.Addr `json:"nextHop,omitzero"`
	// Response is how it responds; empty if that was not observed.
	Response string `json:"response,omitempty"`
	// Reply is the way back; zero in answers of versions that do not know it, and if there is none.
	Reply Reply `json:"reply,omitzero"`
}

// AddrPort returns the address and port.
func (e *Endpoint) AddrPort() netip.AddrPort { return netip.AddrPortFrom(e.Address, e.Port) }

// At returns them as text.
func (e *Endpoint) At() string { return e.AddrPort().String() }

// Reply is what happens on the node to the reply of an endpoint.
type Reply struct {
	Verdict string `json:"verdict"`
	// From and To are the addresses of the reply where the node last sees it, or where the endpoint sends
	// it if it does not pass the node. A port that cannot be known is 0.
	From     string `json:"from"`
	To       string `json:"to"`
	Bypasses bool   `json:"bypasses,omitempty"` // it does not pass the node
	// Later reports whether the reply passes, and the verdict is of what the client sends then.
	Later   bool    `json:"later,omitempty"`
	How     string  `json:"how,omitempty"` // this and the others as in an [Outcome]
	By      RuleRef `json:"by,omitzero"`
	Reason  string  `json:"reason,omitempty"`
	Fault   string  `json:"fault,omitempty"`
	Because string  `json:"because,omitempty"`
}

// Affinity is the endpoint that is remembered for a client.
type Affinity struct {
	Endpoint       netip.AddrPort `json:"endpoint"`
	ExpiresSeconds int            `json:"expiresSeconds"`
}
