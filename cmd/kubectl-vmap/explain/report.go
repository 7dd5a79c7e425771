package explain

import (
	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/nft/foreign/simulate/path"
)

// Schema is the version of [Report]'s encoding. Programs ignore fields that they do not
// know; it changes if a field changes its meaning.
const Schema = 2

// A Report is the answer for all packets of one question.
type Report struct {
	Schema int            `json:"schema"`
	From   resolve.Object `json:"from"`
	To     resolve.Object `json:"to"`
	// Arrives is always, sometimes, never or unknown, over all ways, there and back.
	Arrives string `json:"arrives"`
	// Answers is whether the endpoints of all ways answer, as was observed, and not what
	// follows from rules; see [answer.Answer].
	Answers string `json:"answers,omitempty"`
	// Entries are the nodes where packets of a client outside the cluster may enter it, if
	// there are several. The ways are those by the first one, where they fare worst.
	Entries []Entry `json:"entries,omitempty"`
	// Ways are the paths of the packets: one for each port and IP family.
	Ways []Way `json:"ways"`
	// Differences are between what nodes and the API server know about the Service.
	Differences []Difference `json:"differences,omitempty"`
	// Silent are the nodes that were asked and did not answer, or not everything.
	Silent []Silence `json:"silent,omitempty"`
	// Notes state what was chosen if several objects or nodes were possible.
	Notes []string `json:"notes,omitempty"`
}

// A Way is the way of one packet and of its reply.
type Way struct {
	Family   string `json:"family"`
	Protocol string `json:"protocol"`
	From     string `json:"from"`
	To       string `json:"to"`
	// Service is "namespace/name:port", Kind the kind of its address; empty if none has it.
	Service string `json:"service,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Arrives string `json:"arrives"` // as in [Report]
	Answers string `json:"answers,omitempty"`
	Verdict string `json:"verdict"` // in words
	// Causes are what the verdict follows from, the most important first.
	Causes []resolve.Cause `json:"causes,omitempty"`
	// Client is the answer of the client's node.
	Client NodeAnswer `json:"client"`
	// Endpoints are the possible destinations, the most probable first. One of each node is
	// followed to that node.
	Endpoints []Endpoint `json:"endpoints,omitempty"`

	responses answer.Responses
	holder    string // the Service that has the address, if not the one that was asked about
}

// A NodeAnswer is what one node answers about the packet.
type NodeAnswer struct {
	Node   string         `json:"node"`
	Answer *answer.Answer `json:"answer,omitempty"` // nil if the node did not answer
}

// An Endpoint is a possible destination, as the client's node answers about it, and with what the
// API server and the endpoint's node know.
type Endpoint struct {
	path.Endpoint

	Pod    string `json:"pod,omitempty"`
	On     string `json:"node,omitempty"`   // the node
	Client string `json:"client,omitempty"` // what has the address Sees
	// Arrives is whether the packet and its reply arrive; as for others on the same node
	// if it was not followed.
	Arrives string `json:"arrives"`
	Why     string `json:"why,omitempty"` // unless it always arrives
	// There is the answer of its node for the packet as it arrives there; nil if it is the
	// client's node, or was not asked.
	There *NodeAnswer `json:"there,omitempty"`
	// Like is the followed endpoint of the same node, if this one was not.
	Like string `json:"like,omitempty"`

	masquerade bool        // by the client's node
	node       *NodeAnswer // There, also of the one that it is like
}

// An Entry is a node where packets may enter the cluster, and whether they arrive by it, as far
// as its own rules decide.
type Entry struct {
	Node    string `json:"node"`
	Arrives string `json:"arrives"`

	silent bool // it did not answer
}

// A Difference is what a node knows otherwise than the API server.
type Difference struct {
	Node string `json:"node"`
	Text string `json:"text"`
	// Lag is why it may be so, if the node reports it.
	Lag string `json:"lag,omitempty"`
}

// A Silence is why a node did not answer.
type Silence struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}
