package problems

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// Summary is what was asked, and how much was found.
type Summary struct {
	Nodes    int `json:"nodes"`
	Silent   int `json:"silent"` // nodes of them that did not answer
	Services int `json:"services"`
	Problems int `json:"problems"`
	Notices  int `json:"notices"`
	// NotObserved is what no finding is about; see [findings.List].
	NotObserved []string `json:"notObserved"`
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

// write writes problems in an output format. answered are the nodes that answered.
func write(w io.Writer, format string, list []findings.Merged, s Summary, answered []string) error {
	if output.IsObject(format) {
		for i := range list {
			list[i].SetTexts()
		}
		return output.WriteList(w, format, list, s)
	}
	var rows [][]string
	if len(list) > 0 {
		rows = append(rows, []string{"SEVERITY", "OBJECT", "REASON", "FIELD", "NODES", "TEXT"})
	}
	for i := range list {
		p := &list[i]
		cells := []string{
			p.Severity, p.Where(), p.Reason, p.Field, nodesText(p.Nodes, answered, format == "wide"),
			p.String(),
		}
		for k := range cells {
			cells[k] = cmp.Or(output.Clean(cells[k]), "<none>")
		}
		rows = append(rows, cells)
	}
	if err := output.Print(w, rows); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w, s); err != nil || len(s.NotObserved) == 0 {
		return err
	}
	_, err := fmt.Fprintln(w, findings.NotObservedText(s.NotObserved))
	return err
}

// String returns the summary in one line.
func (s Summary) String() string {
	text := fmt.Sprintf("%s, %s: %s, %s", nodestatus.Plural(s.Nodes-s.Silent, "node"),
		nodestatus.Plural(s.Services, "Service"),
		nodestatus.Plural(s.Problems, "problem"), nodestatus.Plural(s.Notices, "notice"))
	if s.Silent > 0 {
		text += fmt.Sprintf("; no answer from %s", nodestatus.Plural(s.Silent, "more node"))
	}
	return text
}

// nodesText returns the nodes concerned, of those that answered.
func nodesText(list, answered []string, wide bool) string {
	switch {
	case len(list) == len(answered) && len(answered) > 1:
		return "all"
	case wide:
		return strings.Join(list, ",")
	}
	return findings.Where(list, answered, ",")
}
