package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
)

// Problem is what is found on one node or several.
type Problem struct {
	Object    string `json:"object"`
	Namespace string `json:"namespace,omitempty"` // of the Service
	Name      string `json:"name,omitempty"`
	Severity  string `json:"severity"`
	Reason    string `json:"reason"`
	Field     string `json:"field,omitempty"` // of the object, which causes it
	Text      string `json:"text"`            // of most of the nodes
	// Nodes are those where it was found, at most maxNames of them; Count is how many.
	Nodes []string `json:"nodes"`
	Count int      `json:"count"`

	on     []string // all of them
	ofNode bool     // whether it is one of nodes rather than of an object
}

// maxNames is how many nodes are named for a problem.
const maxNames = 8

// Reasons of problems of nodes.
const (
	reasonSilent   = "NoAnswer"
	reasonMissing  = "NoKubeVmap"
	reasonNotReady = "NotReady"
)

// problems returns what is found on all nodes, once for each object, reason and field, the
// worst first.
func (c *Cluster) problems() []Problem { return merge(c.nodes...) }

func merge(all ...*node) []Problem {
	var merger findings.Merger
	for _, n := range all {
		merger.Add(n.Name, n.problems())
	}
	merged := merger.Sorted()
	out := make([]Problem, len(merged))
	for i := range merged {
		out[i] = newProblem(&merged[i])
	}
	slices.SortStableFunc(out, func(a, b Problem) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

func newProblem(m *findings.Merged) Problem {
	p := Problem{
		Object: m.Object, Namespace: m.Namespace, Name: m.Name, Severity: m.Severity, Reason: m.Reason,
		Field: m.Field, Text: m.Sentence(),
		Nodes: m.Nodes[:min(len(m.Nodes), maxNames)], Count: len(m.Nodes), on: m.Nodes, ofNode: m.Object == "",
	}
	if p.ofNode {
		p.Field = ""
		if p.Object = "Node " + p.Nodes[0]; p.Count > 1 {
			p.Object = fmt.Sprintf("%d nodes", p.Count)
		}
	}
	return p
}

// own counts the problems of each node that most other nodes do not have: problems of the node,
// rather than of an object of the cluster.
func own(problems []Problem, answering int) map[string]int {
	out := map[string]int{}
	for i := range problems {
		if p := &problems[i]; p.Severity == nodestatus.SeverityProblem &&
			(2*p.Count < answering || p.Name == "" || answering == 1) {
			for _, n := range p.on {
				out[n]++
			}
		}
	}
	return out
}

// rank orders problems: nodes first, then other objects, notices last.
func rank(p Problem) int {
	switch {
	case p.ofNode:
		return 0
	case p.Severity == nodestatus.SeverityProblem:
		return 1
	}
	return 2
}

// problem returns a problem of the node itself, without an object. The field, which is not
// shown, is the text without the node's name, so nodes with the same problem are merged.
func (n *node) problem(reason, text string) findings.Finding {
	return findings.Finding{
		Severity: nodestatus.SeverityProblem, Reason: reason,
		Field: strings.ReplaceAll(text, n.Name, ""), Text: text,
	}
}

func (n *node) problems() (out []findings.Finding) {
	switch {
	case n.Missing:
		return []findings.Finding{n.problem(reasonMissing, n.Why)}
	case n.err != nil:
		return []findings.Finding{n.problem(reasonSilent, n.err.Error())}
	case n.at.IsZero():
		return nil
	case !n.tally.Ready:
		out = append(out, n.problem(reasonNotReady, "it has not programmed its first state"))
	}
	known := map[[2]string]bool{} // Services, and reasons of objects
	for i := range n.findings {
		f := &n.findings[i]
		known[[2]string{f.Namespace, f.Name}], known[[2]string{f.Object, f.Reason}] = true, true
	}
	out = append(out, n.findings...)
	for _, p := range n.tally.Problems {
		if !known[[2]string{p.Object, p.Reason}] {
			severity := nodestatus.SeverityOf(p.Reason)
			out = append(out, findings.Finding{Severity: severity, Object: p.Object, Reason: p.Reason, Text: p.Text})
		}
	}
	for k, s := range n.tallied {
		if !known[[2]string{k.namespace, k.name}] {
			out = append(out, findings.Finding{
				Severity: s.severity, Object: "Service " + k.namespace + "/" + k.name, Namespace: k.namespace, Name: k.name,
				Reason: s.name, Text: cmp.Or(s.problem, nodestatus.StateText(s.name)),
			})
		}
	}
	return out
}
