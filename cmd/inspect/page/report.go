package page

import (
	"net"
	"slices"
	"strconv"

	"kube-vmap/cmd/inspect/explain/answer"
)

// Report is the path of a packet as one node knows it, in the shape of what "kubectl vmap
// explain -o json" prints for a whole cluster.
type Report struct {
	From struct{} `json:"from"` // no name of it is known
	Ways []Way    `json:"ways"`
}

// Way is the path of one packet.
type Way struct {
	Family    string        `json:"family"`
	Protocol  string        `json:"protocol"`
	From      string        `json:"from"`
	To        string        `json:"to"`
	Service   string        `json:"service"`
	Kind      string        `json:"kind"`
	Arrives   string        `json:"arrives"`
	Client    NodeAnswer    `json:"client"`
	Endpoints []WayEndpoint `json:"endpoints"`
}

// NodeAnswer is what the node does with the packet.
type NodeAnswer struct {
	Node   string `json:"node"`
	Answer struct {
		Outcomes []answer.Outcome `json:"outcomes"`
		Steps    []answer.Step    `json:"steps"`
	} `json:"answer"`
}

// WayEndpoint is a possible destination.
type WayEndpoint struct {
	Address     string        `json:"address"`
	Node        string        `json:"node"` // empty for another one
	Probability float64       `json:"probability"`
	Sees        string        `json:"sees"`
	Arrives     string        `json:"arrives"`
	Reply       *answer.Reply `json:"reply,omitempty"`
}

// NewReport returns the answer of a node, of whose steps it has those in tables that are shown.
// It is not complete if it returns false: something in another table decides.
func NewReport(node string, a *answer.Answer, shown func(table string) bool) (*Report, bool) {
	hidden := func(by *answer.RuleRef) bool { return by != nil && !shown(by.Table) }
	family := "IPv4"
	if host, _, err := net.SplitHostPort(a.To); err == nil && net.ParseIP(host).To4() == nil {
		family = "IPv6"
	}
	w := Way{
		Family: family, Protocol: a.Protocol, From: a.From, To: a.To, Service: a.Service, Kind: a.Kind,
		Arrives: a.Arrives,
	}
	w.Client.Node, w.Client.Answer.Outcomes = node, a.Outcomes
	w.Client.Answer.Steps = slices.DeleteFunc(slices.Clone(a.Steps), func(s answer.Step) bool { return !shown(s.Table) })
	for i := range a.Outcomes {
		if hidden(a.Outcomes[i].By) {
			return nil, false
		}
		for _, e := range a.Outcomes[i].Endpoints {
			if e.Reply != nil && hidden(e.Reply.By) {
				return nil, false
			}
			to := WayEndpoint{
				Address: net.JoinHostPort(e.Address, strconv.Itoa(int(e.Port))), Probability: e.Probability, Sees: e.Sees,
				Arrives: answer.Always, Reply: e.Reply,
			}
			if e.Node {
				to.Node = node
			}
			if e.Reply != nil && e.Reply.Verdict != answer.ReplyDelivered {
				to.Arrives = answer.Never
			}
			w.Endpoints = append(w.Endpoints, to)
		}
	}
	return &Report{Ways: []Way{w}}, true
}
