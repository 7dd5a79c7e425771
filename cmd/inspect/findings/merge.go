package findings

import (
	"slices"

	"kube-vmap/cmd/inspect/status"
)

// A Merged finding is what several nodes have found about an object, with the same reason
// and field.
type Merged struct {
	Finding          // with the text of most of these nodes
	Nodes   []string `json:"nodes"` // in the order of [Merger.Add]
	// Differ is how many of the nodes have another text.
	Differ int `json:"differ,omitempty"`

	texts map[string]int // nodes by text
}

// IsProblem reports whether it is more than a notice.
func (m *Merged) IsProblem() bool { return m.Severity == status.SeverityProblem }

// A Merger merges the findings of nodes.
type Merger struct{ byKey map[mergeKey]*Merged }

type mergeKey struct{ object, reason, field string }

// Add adds the findings of a node.
func (m *Merger) Add(node string, list []Finding) {
	if m.byKey == nil {
		m.byKey = map[mergeKey]*Merged{}
	}
	for i := range list {
		f := &list[i]
		k := mergeKey{f.Object, f.Reason, f.Field}
		p := m.byKey[k]
		if p == nil {
			p = &Merged{Finding: *f, texts: map[string]int{}}
			m.byKey[k] = p
		}
		if f.Severity == status.SeverityProblem {
			p.Severity = f.Severity
		}
		p.Ports, p.Families = union(p.Ports, f.Ports), union(p.Families, f.Families)
		p.Frontends, p.Endpoints = union(p.Frontends, f.Frontends), union(p.Endpoints, f.Endpoints)
		if last := len(p.Nodes) - 1; last < 0 || p.Nodes[last] != node { // of several families, the first
			p.texts[f.Text]++
			p.Nodes = append(p.Nodes, node)
		}
	}
}

// Sorted returns the problems and then the notices.
func (m *Merger) Sorted() []Merged {
	out := make([]Merged, 0, len(m.byKey))
	for _, p := range m.byKey {
		for text, n := range p.texts {
			if most := p.texts[p.Text]; n > most || n == most && text < p.Text {
				p.Text = text
			}
		}
		p.Differ = len(p.Nodes) - p.texts[p.Text]
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Merged) int { return Compare(a.Finding, b.Finding) })
	return out
}

// union adds what is not in the list, up to its limit.
func union(list, more []string) []string {
	for _, v := range more {
		if len(list) < maxListed && !slices.Contains(list, v) {
			list = append(slices.Clip(list), v)
		}
	}
	return list
}
