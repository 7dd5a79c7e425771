// Package path has what is shown of the path of a packet: of a simulation, and in the answers of
// explain. Programs on other platforms read these, so this package imports
// nothing of the node.
package path

import "strconv"

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
	// Endpoint is set for steps after a pick: the endpoint that they lead to. Similar is
	// the number of other endpoints with similar steps.
	Endpoint string `json:"for,omitempty"`
	Similar  int    `json:"alike,omitempty"`
}

// Kinds of steps.
const (
	StepLookup        = "lookup" // a map has the packet, and leads to another chain
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
