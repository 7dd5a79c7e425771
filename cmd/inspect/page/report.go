package page

import (
	"net/netip"
	"slices"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/model"
)

// Report is the path of a packet as one node knows it, in the shape of what "kubectl vmap
// explain -o json" prints for a whole cluster, without the endpoints, which are in the outcomes.
type Report struct {
	From struct{} `json:"from"` // no name of it is known
	Ways []Way    `json:"ways"`
}

// Way is the path of one packet.
type Way struct {
	Family   string     `json:"family"`
	Protocol string     `json:"protocol"`
	From     string     `json:"from"`
	To       string     `json:"to"`
	Service  string     `json:"service"`
	Kind     string     `json:"kind"`
	Arrives  string     `json:"arrives"`
	Client   NodeAnswer `json:"client"`
}

// NodeAnswer is what the node does with the packet.
type NodeAnswer struct {
	Node   string `json:"node"`
	Answer struct {
		Outcomes []answer.Outcome `json:"outcomes"`
		Steps    []answer.Step    `json:"steps"`
	} `json:"answer"`
}

// NewReport returns the answer of a node, of whose steps it has those in tables that are shown.
// It is not complete if it returns false: something in another table decides.
func NewReport(node string, a *answer.Answer, shown func(table string) bool) (*Report, bool) {
	hidden := func(by *answer.RuleRef) bool { return by != nil && !shown(by.Table) }
	for i := range a.Outcomes {
		if hidden(a.Outcomes[i].By) || slices.ContainsFunc(a.Outcomes[i].Endpoints, func(e answer.Endpoint) bool {
			return e.Reply != nil && hidden(e.Reply.By)
		}) {
			return nil, false
		}
	}
	to, _ := netip.ParseAddrPort(a.To)
	w := Way{
		Family: model.FamilyOf(to.Addr()).String(), Protocol: a.Protocol, From: a.From, To: a.To, Service: a.Service,
		Kind: a.Kind, Arrives: a.Arrives, Client: NodeAnswer{Node: node},
	}
	w.Client.Answer.Outcomes = a.Outcomes
	w.Client.Answer.Steps = slices.DeleteFunc(slices.Clone(a.Steps), func(s answer.Step) bool { return !shown(s.Table) })
	return &Report{Ways: []Way{w}}, true
}
