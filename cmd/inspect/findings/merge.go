package findings

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/status"
)

// A Merged finding is what several nodes have found about an object, with the same reason
// and field.
type Merged struct {
	Finding          // with the text of most of these nodes
	Nodes   []string `json:"nodes"` // in the order of [CompareNames]
	// Texts are those of the nodes, the most frequent first, if they differ by more than
	// numbers of connections.
	Texts []Text `json:"texts,omitempty"`

	byText map[string]*Text
	last   string // of the nodes
}

// A Text is what some nodes describe alike.
type Text struct {
	Text      string   `json:"text"`
	Nodes     []string `json:"nodes"`
	Endpoints []string `json:"endpoints,omitempty"`
}

// IsProblem reports whether it is more than a notice.
func (m *Merged) IsProblem() bool { return m.Severity == status.SeverityProblem }

// A Merger merges the findings of nodes.
type Merger struct {
	nodes []string
	byKey map[mergeKey]*Merged
}

// objectNode is the kind of the object of a finding about a node.
const objectNode = "Node"

type mergeKey struct{ object, reason, field string }

// Add adds the findings of a node.
func (m *Merger) Add(node string, list []Finding) {
	if m.byKey == nil {
		m.byKey = map[mergeKey]*Merged{}
	}
	m.nodes = append(m.nodes, node)
	for i := range list {
		f := &list[i]
		k := mergeKey{f.Object, f.Reason, f.Field}
		if k.object == "Node "+node { // about itself: the same on others is one finding
			k.object = objectNode
		}
		p := m.byKey[k]
		if p == nil {
			p = &Merged{Finding: *f, byText: map[string]*Text{}}
			m.byKey[k] = p
		}
		if f.Severity == status.SeverityProblem {
			p.Severity = f.Severity
		}
		p.Ports, p.Families = union(p.Ports, f.Ports), union(p.Families, f.Families)
		p.Frontends, p.Endpoints = union(p.Frontends, f.Frontends), union(p.Endpoints, f.Endpoints)
		if p.last == node {
			continue // of several with the same key, the first
		}
		p.last = node
		t := p.byText[f.Text]
		if t == nil {
			t = &Text{Text: f.Text}
			p.byText[f.Text] = t
		}
		t.Nodes, t.Endpoints = append(t.Nodes, node), union(t.Endpoints, f.Endpoints)
	}
}

// Nodes returns the nodes that were added, in the order of [CompareNames].
func (m *Merger) Nodes() []string { return slices.SortedFunc(slices.Values(m.nodes), CompareNames) }

// Sorted returns the problems and then the notices.
func (m *Merger) Sorted() []Merged {
	all := m.Nodes()
	out := make([]Merged, 0, len(m.byKey))
	for _, p := range m.byKey {
		p.compareTexts(all)
		if strings.HasPrefix(p.Object, objectNode+" ") && len(p.Nodes) > 1 {
			p.Object = status.Plural(len(p.Nodes), objectNode)
		}
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Merged) int { return Compare(a.Finding, b.Finding) })
	return out
}

// compareTexts sets the nodes and the texts, which name nodes instead of "this node".
func (m *Merged) compareTexts(all []string) {
	texts := m.byText
	if len(texts) > 1 {
		texts = withoutCounts(texts)
	}
	m.Nodes, m.Texts = nil, nil
	for _, t := range texts {
		slices.SortFunc(t.Nodes, CompareNames)
		m.Nodes = append(m.Nodes, t.Nodes...)
		m.Texts = append(m.Texts, *t)
	}
	slices.SortFunc(m.Nodes, CompareNames)
	slices.SortFunc(m.Texts, func(a, b Text) int {
		return cmp.Or(cmp.Compare(len(b.Nodes), len(a.Nodes)), CompareNames(a.Nodes[0], b.Nodes[0]))
	})
	for i := range m.Texts {
		t := &m.Texts[i]
		t.Text = strings.ReplaceAll(t.Text, thisNode, Where(t.Nodes, all, ", "))
	}
	if m.Text = m.Texts[0].Text; len(m.Texts) == 1 {
		m.Texts = nil
	}
}

// counts are numbers of connections in texts, which differ on all nodes with clients.
var counts = regexp.MustCompile(`, (once within the observation|\d+ times within the observation|\d+ connections? waiting|\d+ connections?|\d+,)`)

// withoutCounts merges texts that differ by numbers of connections only.
func withoutCounts(texts map[string]*Text) map[string]*Text {
	out := map[string]*Text{}
	for text, t := range texts {
		key := counts.ReplaceAllString(text, "")
		if has := out[key]; has != nil {
			has.Text, has.Nodes, has.Endpoints = key, append(has.Nodes, t.Nodes...), union(has.Endpoints, t.Endpoints)
		} else {
			one := *t
			out[key] = &one
		}
	}
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
