package findings

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// A Merged finding is what several nodes have found about an object, with the same reason
// and field.
type Merged struct {
	Finding          // of most of these nodes
	Nodes   []string `json:"nodes"` // in the order of [CompareNames]
	// Variants are the findings of the nodes, the most frequent first, if they differ by more than
	// numbers of connections.
	Variants []Merged `json:"texts,omitempty"`

	where string // Nodes, of all
	byID  map[string]*Merged
}

// A Merger merges the findings of nodes.
type Merger struct {
	nodes []string
	byKey map[mergeKey]*Merged
}

const objectNode = "Node"

type mergeKey struct {
	object, reason, field string
	n                     int // of several on a node, as for ports with endpoints of their own
}

// Add adds the findings of a node.
func (m *Merger) Add(node string, list []Finding) {
	if m.byKey == nil {
		m.byKey = map[mergeKey]*Merged{}
	}
	m.nodes = append(m.nodes, node)
	seen := map[mergeKey][]string{} // ports
	for i := range list {
		f := &list[i]
		k := mergeKey{object: f.Object, reason: f.Reason, field: f.Field}
		if k.object == "Node "+node { // about itself: the same on others is one finding
			k.object = objectNode
		}
		ports := strings.Join(f.Ports, " ")
		again := slices.Contains(seen[k], ports)
		if !again {
			seen[k] = append(seen[k], ports)
		}
		k.n = slices.Index(seen[k], ports)
		p := m.byKey[k]
		if p == nil {
			p = &Merged{Finding: *f, byID: map[string]*Merged{}}
			m.byKey[k] = p
		}
		if f.IsProblem() {
			p.Severity = f.Severity
		}
		p.Ports, p.Families = union(p.Ports, f.Ports...), union(p.Families, f.Families...)
		p.Frontends, p.Endpoints = union(p.Frontends, f.Frontends...), union(p.Endpoints, f.Endpoints...)
		if again {
			continue // of several about the same ports, the first
		}
		v := p.byID[id(f)]
		if v == nil {
			v = &Merged{Finding: *f}
			p.byID[id(f)] = v
		}
		switch {
		case f.Since.IsZero():
			if v.Count != f.Count {
				v.Count = 0
			}
		case v.Count != f.Count, v.Clients != f.Clients, v.Number != f.Number:
			v.Count, v.Clients, v.Number = 0, 0, 0
			fallthrough
		default:
			v.Since = earlier(v.Since, f.Since)
		}
		v.Nodes, v.Endpoints = append(v.Nodes, node), union(v.Endpoints, f.Endpoints...)
	}
}

// id identifies what nodes have found, but for numbers of connections and times, which differ on
// all nodes with clients.
func id(f *Finding) string {
	a, text := f.Args, ""
	if a.Count = 0; a.IsZero() {
		text = f.Text
	}
	if !a.Since.IsZero() {
		a.Since, a.Clients, a.Number = time.Time{}, 0, 0 // Number counts probes
	}
	return fmt.Sprintf("%s %s %+v %s", f.Severity, f.Kind, a, text)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Nodes returns the nodes that were added, in the order of [CompareNames].
func (m *Merger) Nodes() []string { return slices.SortedFunc(slices.Values(m.nodes), CompareNames) }

// Sorted returns the problems and then the notices.
func (m *Merger) Sorted() []Merged {
	all := m.Nodes()
	out := make([]Merged, 0, len(m.byKey))
	for k, p := range m.byKey {
		p.setVariants(all)
		if k.object == objectNode && len(p.Nodes) > 1 {
			p.Object = nodestatus.Plural(len(p.Nodes), objectNode)
		}
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Merged) int { return compare(&a.Finding, &b.Finding) })
	return out
}

func (m *Merged) setVariants(all []string) {
	for _, v := range m.byID {
		slices.SortFunc(v.Nodes, CompareNames)
		v.where = Where(v.Nodes, all, ", ")
		m.Nodes = append(m.Nodes, v.Nodes...)
		m.Variants = append(m.Variants, *v)
	}
	slices.SortFunc(m.Nodes, CompareNames)
	slices.SortFunc(m.Variants, func(a, b Merged) int {
		return cmp.Or(cmp.Compare(len(b.Nodes), len(a.Nodes)), CompareNames(a.Nodes[0], b.Nodes[0]))
	})
	first := &m.Variants[0]
	m.Kind, m.Args, m.Text, m.where, m.byID = first.Kind, first.Args, first.Text, Where(m.Nodes, all, ", "), nil
	if len(m.Variants) == 1 {
		m.Variants = nil
	}
}

// Sentence returns what most of the nodes have found in words.
func (m *Merged) Sentence() string {
	if len(m.Variants) > 0 {
		m = &m.Variants[0]
	}
	return m.SentenceAt(m.where)
}

// maxVariants is how many sentences of nodes that differ are in a line.
const maxVariants = 3

// String returns what the nodes have found in a line; if they differ, with the nodes.
func (m *Merged) String() string {
	if len(m.Variants) == 0 {
		return m.Sentence()
	}
	var parts []string
	left := 0
	for i := range m.Variants {
		v := &m.Variants[i]
		if i >= maxVariants {
			left += len(v.Nodes)
			continue
		}
		text, placed := v.SentenceOf(v.where)
		if !placed {
			text += " (on " + v.where + ")"
		}
		parts = append(parts, text)
	}
	if left > 0 {
		parts = append(parts, nodestatus.Plural(left, "more node")+" with other numbers or endpoints")
	}
	return strings.Join(append(parts, m.Details...), "; ")
}

// SetTexts sets the texts, for JSON.
func (m *Merged) SetTexts() {
	for i := range m.Variants {
		m.Variants[i].SetTexts()
	}
	m.Text = m.Sentence()
}

// Each calls fn for what the nodes have found, once for each of its variants.
func (m *Merged) Each(fn func(*Finding)) {
	fn(&m.Finding)
	for i := range m.Variants {
		fn(&m.Variants[i].Finding)
	}
}

func union(list []string, more ...string) []string {
	for _, v := range more {
		if len(list) < maxListed && !slices.Contains(list, v) {
			list = append(slices.Clip(list), v)
		}
	}
	return list
}

const maxNames = 3

// Where returns which nodes a list has, of all that answered, for a line of text: their names
// if they are few, the other names if these are few, or the first ones and how many more.
// Both lists are in the order of [CompareNames].
func Where(list, all []string, separator string) string {
	if len(list) <= maxNames && (len(list) < len(all) || len(list) == 1) {
		return strings.Join(list, separator)
	}
	var others []string
	rest := list
	for _, name := range all {
		if len(rest) > 0 && rest[0] == name {
			rest = rest[1:]
		} else if others = append(others, name); len(others) > maxNames {
			break
		}
	}
	switch {
	case len(others) == 0:
		return fmt.Sprintf("all %d nodes", len(all))
	case len(others) < maxNames:
		return "all nodes but " + strings.Join(others, separator)
	}
	return fmt.Sprintf("%s and %d more nodes", strings.Join(list[:maxNames], separator), len(list)-maxNames)
}

// CompareNames compares names: node-2 is before node-10.
func CompareNames(a, b string) int {
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	x, y := digits(a[same:]), digits(b[same:])
	if inNumber := x > 0 && y > 0 || same > 0 && digits(a[same-1:same]) > 0; inNumber && x != y {
		return cmp.Compare(x, y) // the longer number is greater
	}
	return cmp.Compare(a[same:], b[same:])
}

func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// A Summary is what was requested, and how much was found.
type Summary struct {
	Nodes    int `json:"nodes"`
	Silent   int `json:"silent"` // nodes of them that did not answer
	Services int `json:"services"`
	Problems int `json:"problems"`
	Notices  int `json:"notices"`
	// ObservedSeconds and NotObserved are as in [List].
	ObservedSeconds float64  `json:"observedSeconds,omitempty"`
	NotObserved     []string `json:"notObserved"`
}

// Count counts the findings.
func (s *Summary) Count(list []Merged) {
	for i := range list {
		if list[i].IsProblem() {
			s.Problems++
		} else {
			s.Notices++
		}
	}
}

// Write writes the list as text, as [Print] does for many nodes.
func (l *List) Write(w io.Writer) error {
	s := Summary{Nodes: 1, Services: l.Services, ObservedSeconds: l.ObservedSeconds, NotObserved: l.NotObserved}
	list := make([]Merged, len(l.Findings))
	for i, f := range l.Findings {
		list[i] = Merged{Finding: f, Nodes: []string{l.Node}, where: "this node"}
	}
	s.Count(list)
	return Print(w, list, s, []string{l.Node}, false)
}

// Print writes the findings of nodes as text: the object and, of several nodes that answered, where
// it is so; what is found; and then the reason and the field that causes it. With wide, all nodes are
// named.
func Print(w io.Writer, list []Merged, s Summary, answered []string, wide bool) error {
	width, coloured := output.Width(w), output.HasColour(w)
	for i := range list {
		m := &list[i]
		where, on := m.Where(), Where(m.Nodes, answered, ",")
		if wide {
			on = strings.Join(m.Nodes, ",")
		}
		if s.Nodes > 1 {
			where += " on " + on
		}
		cause := strings.TrimSuffix(m.Reason+", "+m.Field, ", ")
		if _, err := fmt.Fprintf(w, "%s  %s\n%s\n    %s\n", output.Colour(m.Severity, coloured), output.Clean(where),
			output.Wrap(output.CleanText(m.String()), "    ", width), output.Clean(cause)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, output.CleanText(s.text()))
	return err
}

func (s *Summary) text() string {
	text := fmt.Sprintf("%s, %s: %s, %s", nodestatus.Plural(s.Nodes-s.Silent, "node"),
		nodestatus.Plural(s.Services, "Service"), nodestatus.Plural(s.Problems, "problem"),
		nodestatus.Plural(s.Notices, "notice"))
	if s.ObservedSeconds > 0 {
		text += fmt.Sprintf("; responses observed for %g s", s.ObservedSeconds)
	}
	if s.Silent > 0 {
		text += fmt.Sprintf("; no answer from %s", nodestatus.Plural(s.Silent, "more node"))
	}
	if len(s.NotObserved) > 0 {
		text += "\nNot checked: " + strings.Join(s.NotObserved, "; ")
	}
	return text
}
