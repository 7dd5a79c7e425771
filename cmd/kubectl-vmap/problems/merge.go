// Package problems is kubectl vmap problems: what kube-vmap problems finds on the nodes, one
// line for each object, reason and field, with the nodes concerned.
package problems

import (
	"slices"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/status"
)

// A Problem is what several nodes have found about an object, with the same reason and
// field.
type Problem struct {
	findings.Finding          // with the text of most of these nodes
	Nodes            []string `json:"nodes"`
	// Differ is how many of the nodes have another text.
	Differ int `json:"differ,omitempty"`

	texts map[string]int // nodes by text
}

// Summary is what was asked.
type Summary struct {
	Nodes    int `json:"nodes"`
	Silent   int `json:"silent"` // nodes of them that did not answer
	Services int `json:"services"`
	Problems int `json:"problems"`
	Notices  int `json:"notices"`
}

// merged are the findings of several nodes.
type merged struct {
	byKey    map[key]*Problem
	services int
}

type key struct{ object, reason, field string }

func newMerged() *merged { return &merged{byKey: map[key]*Problem{}} }

// add adds the findings of a node.
func (m *merged) add(node string, l *findings.List) {
	m.services = max(m.services, l.Services)
	texts := map[key]bool{} // whose text of this node is counted: of several families, the first
	for i := range l.Findings {
		f := &l.Findings[i]
		k := key{f.Object, f.Reason, f.Field}
		p := m.byKey[k]
		if p == nil {
			p = &Problem{Finding: *f, texts: map[string]int{}}
			m.byKey[k] = p
		}
		if f.Severity == status.SeverityProblem {
			p.Severity = f.Severity
		}
		p.Ports, p.Families = union(p.Ports, f.Ports), union(p.Families, f.Families)
		p.Frontends, p.Endpoints = union(p.Frontends, f.Frontends), union(p.Endpoints, f.Endpoints)
		if !texts[k] {
			texts[k] = true
			p.texts[f.Text]++
		}
		if !slices.Contains(p.Nodes, node) {
			p.Nodes = append(p.Nodes, node)
		}
	}
}

// sorted returns the problems and then the notices.
func (m *merged) sorted() []Problem {
	out := []Problem{}
	for _, p := range m.byKey {
		slices.Sort(p.Nodes)
		total := 0
		for text, n := range p.texts {
			total += n
			if most := p.texts[p.Text]; n > most || n == most && text < p.Text {
				p.Text = text
			}
		}
		p.Differ = total - p.texts[p.Text]
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Problem) int { return findings.Compare(a.Finding, b.Finding) })
	return out
}

// maxListed is how many ports and addresses of all nodes are listed.
const maxListed = 20

// union adds what is not in the list.
func union(list, more []string) []string {
	for _, v := range more {
		if len(list) < maxListed && !slices.Contains(list, v) {
			list = append(slices.Clip(list), v)
		}
	}
	return list
}

// isProblem reports whether it is more than a notice.
func (p Problem) isProblem() bool { return p.Severity == status.SeverityProblem }
