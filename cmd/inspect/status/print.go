package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// A field is a column of the table of nodes, and a line about one node.
type field struct {
	title, help string
	text        func(*Row, *nodestatus.Health) string // empty if it is not known
	wide        bool                                  // as a column, with -o wide only
	said        []string                              // reasons of findings that say the same of one node
}

var fields = []field{
	{
		title: "LAG", help: "Services and EndpointSlices that are newer than what the node has seen",
		text: func(r *Row, _ *nodestatus.Health) string {
			if r.Lag == nil {
				return ""
			}
			return strconv.Itoa(r.Lag.sum())
		},
	},
	{
		title: "REFUSED", help: "Service ports that the kernel refuses, objects that cannot be used, and\n" +
			"             addresses and ports that another Service holds",
		text: func(_ *Row, h *nodestatus.Health) string { return strconv.Itoa(h.Refusals()) },
		said: []string{nodestatus.ReasonPortsRefused, nodestatus.ReasonUnusableObjects, nodestatus.ReasonConflicts},
	},
	{
		title: "REPAIRS", help: "of tables that another program changed, since kube-vmap started",
		text: func(_ *Row, h *nodestatus.Health) string { return strconv.Itoa(h.Repairs.Count) },
		said: []string{nodestatus.ReasonRepaired},
	},
	{
		title: "OWNED", help: "IP families of the tables that no other program can change",
		text: func(_ *Row, h *nodestatus.Health) string { return strings.Join(h.Owned(), ",") },
	},
	{
		title: "WARNINGS", help: "and errors in the log, since kube-vmap started",
		text: func(_ *Row, h *nodestatus.Health) string { return strconv.Itoa(h.Warnings.Count) },
		said: []string{nodestatus.ReasonLogged},
	},
	{
		title: "RUNNING", help: "how long kube-vmap has been running", wide: true,
		text: func(r *Row, h *nodestatus.Health) string { return r.ago(h.Started) },
	},
	{
		title: "LAST-SYNC", help: "how long ago changes last reached the kernel", wide: true,
		text: func(r *Row, h *nodestatus.Health) string { return r.ago(h.Sync.Last) },
	},
	{
		title: "SERVICES-AT", help: "the newest resource version that the node has seen, SLICES-AT that\n" +
			"             of EndpointSlices", wide: true,
		text: func(_ *Row, h *nodestatus.Health) string { return h.Position("Service") },
	},
	{
		title: "SLICES-AT", wide: true,
		text: func(_ *Row, h *nodestatus.Health) string { return h.Position("EndpointSlice") },
	},
	{
		title: "CONN/S", help: "new connections to Services per second, since the last status or over a second", wide: true,
		text: func(_ *Row, h *nodestatus.Health) string {
			if h.ConnectionsPerSecond == nil {
				return ""
			}
			return strconv.FormatFloat(*h.ConnectionsPerSecond, 'f', 1, 64)
		},
	},
	{
		title: "TRACKED", help: "connections that the kernel tracks, of at most how many", wide: true,
		text: func(_ *Row, h *nodestatus.Health) string {
			if h.Network == nil {
				return ""
			}
			return fmt.Sprintf("%d/%d", h.Network.Tracked, h.Network.TrackedMax)
		}, said: []string{nodestatus.ReasonTracking},
	},
	{
		title: "FAST-PATH", help: "whether packets of established connections bypass the rules", wide: true,
		text: func(_ *Row, h *nodestatus.Health) string {
			if h.FastPath == nil {
				return ""
			}
			return map[bool]string{true: "on", false: "off"}[h.FastPath.On]
		},
	},
	{
		title: "TAKE-OVER", help: "how far kube-vmap has taken the place of kube-proxy", wide: true,
		text: func(_ *Row, h *nodestatus.Health) string { return h.Takeover.State },
	},
}

func fieldsHelp() string {
	var b strings.Builder
	for _, f := range fields {
		if f.help != "" {
			fmt.Fprintf(&b, "  %-11s%s\n", f.title, f.help)
		}
	}
	return b.String()
}

func writeTable(w io.Writer, format string, rows []Row) error {
	if output.IsObject(format) {
		return output.WriteList(w, format, rows, summarize(rows))
	}
	shown := slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return f.wide && format != "wide" })
	titles := []string{"NODE", "VERSION", "READY"}
	for _, f := range shown {
		titles = append(titles, f.title)
	}
	table := [][]string{append(titles, "STATUS")}
	var absent []string
	for i := range rows {
		r := &rows[i]
		if r.Severity == severityAbsent {
			absent = append(absent, r.Node)
			continue
		}
		ready := ""
		if r.Ready != nil {
			ready = map[bool]string{true: "True", false: "False"}[*r.Ready]
		}
		cells := []string{r.Node, r.Version, ready}
		for _, f := range shown {
			cells = append(cells, r.cell(&f))
		}
		for k := range cells {
			cells[k] = cmp.Or(cells[k], "-")
		}
		table = append(table, append(cells, r.text()))
	}
	if err := output.Print(w, table); err != nil {
		return err
	}
	if text := nodes.AbsentText(absent); text != "" {
		_, _ = fmt.Fprintln(w, text)
	}
	_, err := fmt.Fprintln(w, summarize(rows))
	return err
}

// write writes what there is to know of one node: the verdict, findings, and the fields that these
// have not said already.
func (r *Row) write(w io.Writer) error {
	verdict := map[string]string{
		nodestatus.SeverityOK: "healthy", nodestatus.SeverityNotice: "healthy, with notices",
		nodestatus.SeverityProblem: "with problems",
	}[r.Severity]
	_, err := fmt.Fprintf(w, "%s: kube-vmap %s, %s\n", output.Clean(r.Node), output.Clean(r.Version), verdict)
	if err != nil {
		return err
	}
	var lines [][]string
	said := map[string]bool{}
	for i := range r.Problems {
		f := &r.Problems[i]
		said[f.Reason] = true
		lines = append(lines, []string{"  " + strings.ToUpper(f.Severity), f.Text})
	}
	for _, f := range fields {
		text := r.cell(&f)
		if text != "" && !slices.ContainsFunc(f.said, func(reason string) bool { return said[reason] }) {
			lines = append(lines, []string{"  " + f.title, text})
		}
	}
	return output.Print(w, lines)
}

func (r *Row) cell(f *field) string {
	if r.Health == nil {
		return ""
	}
	return f.text(r, r.Health)
}

// text returns the worst problem in words.
func (r *Row) text() string {
	if len(r.Problems) == 0 {
		return "OK"
	}
	text := r.Problems[0].Text
	if more := len(r.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

func (r *Row) ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return nodestatus.Duration(r.now.Sub(t))
}
