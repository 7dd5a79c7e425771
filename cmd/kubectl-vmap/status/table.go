package status

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

// Summary counts the nodes.
type Summary struct {
	Nodes    int `json:"nodes"`
	Unknown  int `json:"unknown"`
	Problems int `json:"problems"`
	Notices  int `json:"notices"`
	// Absent have no pod of kube-vmap, as before they are moved, and are no problem.
	Absent int `json:"absent"`
	// Versions counts the nodes by the version of kube-vmap, where that is known.
	Versions map[string]int `json:"versions"`
}

func summarize(rows []Row) Summary {
	s := Summary{Nodes: len(rows), Versions: map[string]int{}}
	for i := range rows {
		switch rows[i].Severity {
		case severityAbsent:
			s.Absent++
		case severityUnknown:
			s.Unknown++
		case status.SeverityProblem:
			s.Problems++
		case status.SeverityNotice:
			s.Notices++
		}
		if v := rows[i].Version; v != "" {
			s.Versions[v]++
		}
	}
	return s
}

// String returns the summary in one line.
func (s Summary) String() string {
	text := fmt.Sprintf("%s: %d not known, %d with problems, %d with notices", status.Plural(s.Nodes, "node"), s.Unknown, s.Problems, s.Notices)
	if len(s.Versions) > 1 {
		text += fmt.Sprintf("; %d versions of kube-vmap", len(s.Versions))
	}
	return text
}

// isTerminal reports whether lines are read by people, and not by a program.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// maxText is the length of the last column on a terminal, except in wide output.
const maxText = 120

// write writes rows in an output format.
func write(w io.Writer, format string, rows []Row) error {
	if output.IsObject(format) {
		return output.WriteList(w, format, rows, summarize(rows))
	}
	wide := format == "wide"
	t := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0)
	line := func(cells, more []string, last string) {
		if wide {
			cells = append(cells, more...)
		}
		_, _ = fmt.Fprintln(t, strings.Join(append(cells, last), "\t")) // Flush returns the error
	}
	line([]string{"NODE", "VERSION", "READY", "LAG", "REFUSED", "REPAIRS", "OWNED", "WARNINGS"},
		[]string{"RUNNING", "LAST-SYNC", "SERVICES-AT", "SLICES-AT", "TAKE-OVER"}, "STATUS")
	var absent []string
	for i := range rows {
		if rows[i].Severity == severityAbsent {
			absent = append(absent, rows[i].Node)
			continue
		}
		text := output.Clean(rows[i].text())
		if !wide && isTerminal(w) {
			text = shorten(text)
		}
		line(rows[i].cells(), rows[i].more(), text)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if text := nodes.AbsentText(absent); text != "" {
		_, _ = fmt.Fprintln(w, text)
	}
	_, err := fmt.Fprintln(w, summarize(rows))
	return err
}

// shorten returns the beginning and the end of a long text: an error ends with its cause.
func shorten(text string) string {
	const gap, end = " ... ", maxText / 2
	runes := []rune(text)
	if len(runes) <= maxText {
		return text
	}
	return string(runes[:maxText-end-len(gap)]) + gap + string(runes[len(runes)-end:])
}

// unknown replaces what is not known.
const unknown = "-"

// cells returns the columns before the last.
func (r *Row) cells() []string {
	out := []string{r.Node, orUnknown(output.Clean(r.Version)), unknown, unknown, unknown, unknown, unknown, unknown}
	if r.Ready != nil {
		out[2] = map[bool]string{true: "True", false: "False"}[*r.Ready]
	}
	if r.Lag != nil {
		out[3] = strconv.Itoa(r.Lag.Sum())
	}
	if h := r.Health; h != nil {
		out[4], out[5] = strconv.Itoa(h.Refusals()), strconv.Itoa(h.Repairs.Count)
		out[6], out[7] = orUnknown(strings.Join(h.Owned(), ",")), strconv.Itoa(h.Warnings.Count)
	}
	return out
}

// more returns the columns of wide output.
func (r *Row) more() []string {
	out := []string{unknown, unknown, unknown, unknown, unknown}
	h := r.Health
	if h == nil {
		return out
	}
	out[0] = status.Duration(r.now.Sub(h.Started))
	if !h.Sync.Last.IsZero() {
		out[1] = status.Duration(r.now.Sub(h.Sync.Last))
	}
	for _, p := range h.Positions {
		switch p.Kind {
		case "Service":
			out[2] = orUnknown(output.Clean(p.ResourceVersion))
		case "EndpointSlice":
			out[3] = orUnknown(output.Clean(p.ResourceVersion))
		}
	}
	out[4] = orUnknown(output.Clean(h.Takeover.State))
	return out
}

func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return text
}
