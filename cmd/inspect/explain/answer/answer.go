// Package answer is the answer of explain about a packet, as a value and as text, JSON and
// YAML. Programs on other machines and platforms read it, too, so this package imports
// nothing of the node.
//
//	node:    simulation --> Response: values of each packet, the Document
//	reader:  Response --Interpret--> hints, fields, whether it arrives --> sentences
//
// A node sends values only. Who requested them makes the sentences.
package answer

import (
	"cmp"
	"io"
	"slices"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/nft/foreign/simulate/path"
)

// Schema is the number of the responses and answers of this version; see package schema. With
// number 1, a node answered about one packet, with its own sentences.
const Schema = 2

// A Response is what "kube-vmap explain" prints about packets in its arguments.
type Response struct {
	Schema int `json:"schema"`
	// Answers are in the order of the packets. [Answer.Interpret] adds what follows from Document.
	Answers []Answer `json:"answers"`
	// Document has the Service of the packets; nil if the process does not answer.
	Document *nodestatus.Document `json:"document,omitempty"`
	Process  string               `json:"process"` // as in [Answer]
}

// Answer is what is printed, as text, JSON or YAML.
type Answer struct {
	Schema   int    `json:"schema"`
	From     string `json:"from"`
	To       string `json:"to"`
	Protocol string `json:"protocol"`
	// Interface is the one on which the packet arrives; empty if the node sends it.
	Interface string `json:"interface,omitempty"`
	// Via is the next hop towards the client; empty if it is on a link of the node.
	Via string `json:"via,omitempty"`
	// ToNode reports whether the destination is an address of the node itself.
	ToNode bool `json:"toNode,omitempty"`
	// Error is why there is no answer about this packet.
	Error string `json:"error,omitempty"`
	// Elsewhere is set if the client is not on this node: the rules of another node may
	// apply first.
	Elsewhere *Elsewhere `json:"elsewhere,omitempty"`
	// Service is "namespace/name:port"; empty if no Service has the address and port.
	Service string `json:"service,omitempty"`
	// Kind is ClusterIP, NodePort, ExternalIP, LoadBalancerIP; External if only the
	// kernel is known.
	Kind string `json:"kind,omitempty"`
	// Arrives is always, sometimes, never or unknown: whether the packet arrives, and the
	// client gets the reply. Endpoints that were not explored are assumed to be like the
	// others. If rules of other programs have unexplored choices or are in Doubts, it is unknown,
	// unless the outcomes differ already.
	Arrives string `json:"arrives"`
	// Answers is always, sometimes, never or unknown: whether the endpoints answer, as was
	// observed, and not what follows from rules. It is empty if the packet reaches none.
	Answers  string         `json:"answers,omitempty"`
	Outcomes []path.Outcome `json:"outcomes"`
	Steps    []path.Step    `json:"steps"`
	// Unseen are the choices that were not explored.
	Unseen   path.Unexplored `json:"unseen,omitzero"`
	Affinity *path.Affinity  `json:"affinity,omitempty"`
	// Connection is the one that the packet belongs to, and Otherwise the outcomes for a
	// packet that opens one. Connections are the same client's to the same address
	// and port, from other ports, or all if no port was given.
	Connection      *Connection     `json:"connection,omitempty"`
	Otherwise       []path.Outcome  `json:"otherwise,omitempty"`
	OtherwiseUnseen path.Unexplored `json:"otherwiseUnseen,omitzero"`
	Connections     []Connection    `json:"connections,omitempty"`
	// Faults are differences of the tables from what kube-vmap writes, Doubts the rules of
	// other programs that are not understood.
	Faults []string `json:"faults,omitempty"`
	Doubts []string `json:"doubts,omitempty"`
	// NotFollowed names tables of iptables-legacy, whose rules are not followed.
	NotFollowed []string `json:"notFollowed,omitempty"`
	// Hints follow from what the running process knows.
	Hints []string `json:"hints,omitempty"`
	// Process is "answers", or why the running process does not.
	Process string `json:"process"`

	node string // its name, for readers elsewhere
}

// Interpret adds what follows from the values of a response: the words for reasons, what the
// running process knows, and whether the packet arrives. Sentences name the node, unless its name
// is empty.
func (a *Answer) Interpret(r *Response, node string) {
	a.Schema, a.node, a.Process = Schema, node, r.Process
	for _, list := range [][]path.Outcome{a.Outcomes, a.Otherwise} {
		for i := range list {
			a.interpret(&list[i])
		}
	}
	a.Arrives = a.Arrival()
	if r.Document != nil {
		a.addHints(r.Document)
	}
	a.locate(r.Document)
	a.Answers = a.Count().Answers()
}

func (a *Answer) interpret(o *path.Outcome) {
	o.Because, o.Field = a.because(o.Reason, o.Fault), becauseField(o.Reason, a.Kind)
	for i := range o.Endpoints {
		r := &o.Endpoints[i].Reply
		r.Because = a.because(r.Reason, r.Fault)
	}
}

// here is how sentences name the node.
func (a *Answer) here() string { return cmp.Or(a.node, "this node") }

// Elsewhere is the place of a client that is not on this node.
type Elsewhere struct {
	// Pod reports whether it is a pod of another node. Otherwise it may be one, or another
	// node, or outside the cluster.
	Pod  bool   `json:"pod"`
	Node string `json:"node,omitempty"` // of the client, if an EndpointSlice has it
	Via  string `json:"via,omitempty"`  // the next hop towards it
	// Ask are the commands that have the answer.
	Ask []string `json:"ask"`
}

// Connection is an open connection.
type Connection struct {
	FromPort       uint16     `json:"fromPort"`
	Endpoint       string     `json:"endpoint"`
	Sees           string     `json:"sees"`
	State          string     `json:"state,omitempty"`
	Since          *time.Time `json:"since,omitempty"`
	ExpiresSeconds int        `json:"expiresSeconds"` // zero on the fast path
	// FastPath reports whether its packets take a flowtable, past the rules of the node. The
	// kernel reports neither state nor time-out of such a connection.
	FastPath bool `json:"fastPath,omitempty"`
	// Stale reports whether no new connection would go to that endpoint, for the reason Because
	// with its Field, if that is known.
	Stale   bool   `json:"stale,omitempty"`
	Reason  string `json:"reason,omitempty"` // of Because, as in EndpointSlices; Gone without one
	Because string `json:"because,omitempty"`
	Field   string `json:"field,omitempty"`
	// Listed reports whether an EndpointSlice still names it, so it may well answer.
	Listed bool `json:"listed,omitempty"`
}

// Arrival returns the value of Arrives by the other fields. A stale connection does not
// arrive.
func (a *Answer) Arrival() string {
	var values []string
	for i := range a.Outcomes {
		switch o := &a.Outcomes[i]; {
		case o.Verdict == path.VerdictUnknown:
			values = append(values, Unknown)
		case !o.Arrives():
			values = append(values, Never)
		case len(o.Endpoints) == 0:
			values = append(values, Always)
		default:
			for k := range o.Endpoints {
				values = append(values, ReplyArrives(o.Endpoints[k].Reply))
			}
		}
	}
	all := Either(values...)
	switch {
	case slices.Contains(values, Unknown):
		return Unknown
	case a.Connection != nil && a.Connection.Stale && !a.Connection.Listed:
		return Never
	case all != Never && len(a.NotFollowed) > 0:
		return Unknown
	case all != Sometimes && (a.Unseen.OthersPick || len(a.Doubts) > 0):
		return Unknown
	}
	return all
}

// Likeliest returns the most probable outcome.
func (a *Answer) Likeliest() path.Outcome {
	return slices.MaxFunc(a.Outcomes, func(x, y path.Outcome) int { return cmp.Compare(x.Probability, y.Probability) })
}

// Outputs are the values of --output.
var Outputs = output.Formats{"text", "json", "yaml"}

// Print prints the answer in an output format; empty is text.
func (a *Answer) Print(w io.Writer, format string) error {
	if output.IsObject(format) {
		return output.Write(w, format, a)
	}
	_, err := io.WriteString(w, a.Text())
	return err
}

// Values of Arrives and Answers.
const (
	Always    = "always"
	Sometimes = "sometimes"
	Never     = "never"
	Unknown   = "unknown"
)

// arrivals are the values of Arrives, the worst last.
var arrivals = []string{Always, Sometimes, Unknown, Never}

var arrivalTexts = map[string]string{
	Always: "arrives", Never: "does not arrive", Sometimes: "does not always arrive", Unknown: "not certain",
}

// ArrivalText returns a value of Arrives in words.
func ArrivalText(arrives string) string { return arrivalTexts[arrives] }

// Badness orders values of Arrives, the worst is the greatest.
func Badness(arrives string) int { return slices.Index(arrivals, arrives) }

// InTurn returns whether a packet arrives that must pass several places one after another.
func InTurn(values ...string) string {
	return slices.MaxFunc(append(values, Always), func(a, b string) int { return Badness(a) - Badness(b) })
}

// Either returns whether a packet arrives that takes one of several paths. If it arrives on
// some and not on others, the unknown ones do not matter.
func Either(values ...string) string {
	has := func(value string) bool { return slices.Contains(values, value) }
	switch {
	case has(Sometimes), has(Always) && has(Never):
		return Sometimes
	case has(Unknown):
		return Unknown
	case has(Always):
		return Always
	}
	return Never
}
