package findings

import (
	"fmt"
	"io"
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

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
