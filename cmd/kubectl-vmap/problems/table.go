package problems

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top"
)

// Summary is what was asked, and how much was found.
type Summary struct {
	Nodes    int `json:"nodes"`
	Silent   int `json:"silent"` // nodes of them that did not answer
	Services int `json:"services"`
	Problems int `json:"problems"`
	Notices  int `json:"notices"`
}

// summarize counts what was found.
func summarize(list []findings.Merged) (s Summary) {
	for i := range list {
		if list[i].IsProblem() {
			s.Problems++
		} else {
			s.Notices++
		}
	}
	return s
}

// write writes problems in an output format.
func write(w io.Writer, format string, list []findings.Merged, s Summary) error {
	if output.IsObject(format) {
		return output.WriteList(w, format, list, s)
	}
	t := tabwriter.NewWriter(w, 0, 4, 3, ' ', 0)
	if len(list) > 0 {
		_, _ = fmt.Fprintln(t, "SEVERITY\tOBJECT\tREASON\tFIELD\tNODES\tTEXT") // Flush returns the error
	}
	for i := range list {
		p := &list[i]
		cells := []string{p.Severity, p.Where(), p.Reason, p.Field, nodesText(p, s.Nodes-s.Silent, format == "wide"), text(p)}
		for k := range cells {
			if cells[k] = top.Clean(cells[k]); cells[k] == "" {
				cells[k] = "<none>"
			}
		}
		_, _ = fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, s)
	return err
}

// String returns the summary in one line.
func (s Summary) String() string {
	text := fmt.Sprintf("%s, %s: %s, %s", status.Plural(s.Nodes-s.Silent, "node"), status.Plural(s.Services, "Service"),
		status.Plural(s.Problems, "problem"), status.Plural(s.Notices, "notice"))
	if s.Silent > 0 {
		text += fmt.Sprintf("; no answer from %s", status.Plural(s.Silent, "more node"))
	}
	return text
}

// maxNodes is how many nodes are named in a line, except in wide output.
const maxNodes = 3

// nodesText returns the nodes concerned, of those that answered.
func nodesText(p *findings.Merged, answered int, wide bool) string {
	switch {
	case len(p.Nodes) == answered && answered > 1:
		return "all"
	case len(p.Nodes) > maxNodes && !wide:
		return fmt.Sprintf("%d of %d", len(p.Nodes), answered)
	}
	return strings.Join(p.Nodes, ",")
}

// text returns the text of most nodes, and how many have another one.
func text(p *findings.Merged) string {
	if p.Differ == 0 {
		return p.Text
	}
	return fmt.Sprintf("%s (%d of these nodes differ)", p.Text, p.Differ)
}
