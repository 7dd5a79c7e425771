package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/status"
)

// serviceOf returns the Service that an object is, or has as a part: "Service shop/web:http".
func serviceOf(object string) key {
	name, ok := strings.CutPrefix(object, "Service ")
	if !ok {
		return key{}
	}
	namespace, name, _ := strings.Cut(name, "/")
	name, _, _ = strings.Cut(name, ":")
	return key{namespace, name}
}

// Problem is what is found on one node or several.
type Problem struct {
	Object    string `json:"object"`
	Namespace string `json:"namespace,omitempty"` // of the Service
	Name      string `json:"name,omitempty"`
	Severity  string `json:"severity"`
	Reason    string `json:"reason"`
	Field     string `json:"field,omitempty"` // of the object, which causes it
	Text      string `json:"text"`            // as a node says it
	// Nodes are those where it was found, at most maxNames of them; Count is how many.
	Nodes []string `json:"nodes"`
	Count int      `json:"count"`
	on    []*node
}

// maxNames is how many nodes are named for a problem.
const maxNames = 8

// Reasons of problems of nodes.
const (
	ReasonSilent   = "NoAnswer"
	ReasonMissing  = "NoKubeVmap"
	ReasonNotReady = "NotReady"
)

// problems returns what is found on all nodes, once for each object and reason, the worst
// first.
func (c *Cluster) problems() []Problem {
	all := collected{}
	for _, n := range c.nodes {
		n.problems(all)
	}
	return all.sorted()
}

// own counts the problems of each node that most other nodes do not have: those of the node,
// rather than of an object of the cluster.
func own(problems []Problem, answering int) map[*node]int {
	out := map[*node]int{}
	for i := range problems {
		if p := &problems[i]; p.Severity == status.SeverityProblem && (2*p.Count < answering || p.Name == "" || answering == 1) {
			for _, n := range p.on {
				out[n]++
			}
		}
	}
	return out
}

// sorted returns the problems, the worst first.
func (c collected) sorted() []Problem {
	out := make([]Problem, 0, len(c))
	for _, p := range c {
		if p.Object == "" {
			p.Object = nodesText(p)
		}
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// nodesText is the object of a problem of nodes.
func nodesText(p *Problem) string {
	if p.Count == 1 {
		return "Node " + p.Nodes[0]
	}
	return fmt.Sprintf("%d nodes", p.Count)
}

// rank orders problems: nodes first, then other objects, notices last.
func rank(p Problem) int {
	switch {
	case p.Reason == ReasonSilent || p.Reason == ReasonMissing || p.Reason == ReasonNotReady:
		return 0
	case p.Severity == status.SeverityProblem:
		return 1
	}
	return 2
}

// collected are problems by object, reason and field.
type collected map[[3]string]*Problem

func (c collected) add(n *node, object, severity, reason, field, text string) {
	key := [3]string{object, reason, field}
	if object == "" { // nodes are listed together if the same is wrong
		key[2] = strings.ReplaceAll(text, n.Name, "")
	}
	p := c[key]
	if p == nil {
		of := serviceOf(object)
		p = &Problem{Object: object, Namespace: of.namespace, Name: of.name, Severity: severity, Reason: reason, Field: field, Text: text}
		c[key] = p
	}
	if len(p.on) > 0 && p.on[len(p.on)-1] == n {
		return // the same for another port or family
	}
	p.on = append(p.on, n)
	if p.Count++; p.Count <= maxNames {
		p.Nodes = append(p.Nodes, n.Name)
	}
}

// problems adds those of the node.
func (n *node) problems(all collected) {
	switch {
	case n.Missing:
		all.add(n, "", status.SeverityProblem, ReasonMissing, "", n.Why)
		return
	case n.err != nil:
		all.add(n, "", status.SeverityProblem, ReasonSilent, "", n.err.Error())
		return
	case n.at.IsZero():
		return
	case !n.tally.Ready:
		all.add(n, "", status.SeverityProblem, ReasonNotReady, "", "it has not programmed its first state")
	}
	for _, p := range n.tally.Problems {
		all.add(n, p.Object, status.SeverityProblem, p.Reason, "", p.Text)
	}
	known := map[key]bool{}
	for i := range n.findings {
		f := &n.findings[i]
		known[key{f.Namespace, f.Name}] = true
		all.add(n, f.Object, f.Severity, f.Reason, f.Field, f.Text)
	}
	for k, s := range n.tallied {
		if !known[k] {
			all.add(n, "Service "+k.namespace+"/"+k.name, s.severity, s.name, "", cmp.Or(s.problem, stateText[s.name]))
		}
	}
}

// stateText describes states that may have no problem.
var stateText = map[string]string{
	status.StateNoEndpoints: "a port has no endpoints: its connections are rejected",
	status.StateMissing:     "a port is not programmed",
	status.StateNotLocal:    "a policy is Local, and all endpoints are on other nodes",
}
