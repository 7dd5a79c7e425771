package status

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/findings"
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

// Severities of nodes, in addition to package nodestatus.
const (
	severityUnknown = "Unknown" // it could not be read
	severityAbsent  = "Absent"  // it has no pod of kube-vmap
)

// A Row is the state of one node.
type Row struct {
	Node     string `json:"node"`
	Version  string `json:"version,omitempty"`
	Severity string `json:"severity"`
	// Ready reports whether the first state was programmed and the pod is ready; nil if that
	// is not known.
	Ready *bool `json:"ready,omitempty"`
	// Lag is nil if it is not known, or the node does not follow the API server.
	Lag *Lag `json:"lag,omitempty"`
	// Problems are the problems and then the notices, the worst first.
	Problems []findings.Finding `json:"problems,omitempty"`
	Health   *nodestatus.Health `json:"health,omitempty"` // nil if it is not known

	now time.Time // by the clock of the node
	err error     // why it could not be read
}

// Lag counts the objects of the API server that are newer than what a node has seen.
type Lag struct {
	Services       int `json:"services"`
	EndpointSlices int `json:"endpointSlices"`
}

func (l *Lag) sum() int { return l.Services + l.EndpointSlices }

// NewRow returns the row of a node that has answered, or of the error. lag returns how far it is
// behind; nil where that is not known.
func NewRow(n nodes.Node, d *nodestatus.Document, err error, lag func(*nodestatus.Health) (*Lag, error)) Row {
	row := Row{Node: n.Name}
	if err == nil && d.Health == nil {
		err = fmt.Errorf("runs kube-vmap %s, which does not report its health", cmp.Or(d.Version, "of an older version"))
	}
	if d != nil {
		row.Node, row.Version = cmp.Or(n.Name, d.Node), d.Version
	}
	if err != nil {
		row.fail(n, err)
		return row
	}
	ready := d.Ready && n.Why == ""
	row.Ready, row.Health, row.Problems, row.now = &ready, d.Health, findings.WithTexts(findings.OfNode(d)), d.Time
	if n.Why != "" && d.Ready { // otherwise the problems of the node have it
		row.add(n.Why)
	}
	if lag != nil {
		l, err := lag(row.Health)
		switch row.Lag = l; {
		case err != nil:
			row.add("the lag is not known: " + err.Error())
		case l != nil && l.sum() > 0:
			row.add(fmt.Sprintf("behind the API server: %s and %s are newer than what it has seen",
				nodestatus.Plural(l.Services, "Service"), nodestatus.Plural(l.EndpointSlices, "EndpointSlice")))
		}
	}
	row.Severity = nodestatus.SeverityOK
	if len(row.Problems) > 0 {
		row.Severity = row.Problems[0].Severity
	}
	return row
}

func (r *Row) fail(n nodes.Node, err error) {
	var missing *nodes.MissingError
	var old *nodes.VersionError
	r.Severity, r.err = severityUnknown, err
	switch {
	case n.Absent:
		r.Severity, r.Ready = severityAbsent, new(bool)
	case errors.As(err, &missing): // which is known from the API
		r.Severity, r.Ready = nodestatus.SeverityProblem, new(bool)
	case errors.As(err, &old):
		r.Version = old.Version
	}
	r.add(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// add adds a problem before all others.
func (r *Row) add(text string) {
	r.Problems = slices.Insert(r.Problems, 0, findings.Finding{Severity: nodestatus.SeverityProblem, Text: text})
}

// ranks are the severities in the order of rows.
var ranks = []string{
	severityUnknown, nodestatus.SeverityProblem, nodestatus.SeverityNotice, nodestatus.SeverityOK,
	severityAbsent,
}

// sortRows sorts rows: problems first, and then by name.
func sortRows(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(slices.Index(ranks, a.Severity), slices.Index(ranks, b.Severity)),
			findings.CompareNames(a.Node, b.Node))
	})
}

type summary struct {
	Nodes    int `json:"nodes"`
	Unknown  int `json:"unknown"`
	Problems int `json:"problems"`
	Notices  int `json:"notices"`
	// Absent have no pod of kube-vmap, as before they are moved, and are no problem.
	Absent int `json:"absent"`
	// Versions counts the nodes by the version of kube-vmap, where that is known.
	Versions map[string]int `json:"versions"`
}

func summarize(rows []Row) summary {
	s := summary{Nodes: len(rows), Versions: map[string]int{}}
	by := map[string]int{}
	for i := range rows {
		by[rows[i].Severity]++
		if v := rows[i].Version; v != "" {
			s.Versions[v]++
		}
	}
	s.Absent, s.Unknown = by[severityAbsent], by[severityUnknown]
	s.Problems, s.Notices = by[nodestatus.SeverityProblem], by[nodestatus.SeverityNotice]
	return s
}

// String returns the summary in one line.
func (s summary) String() string {
	text := fmt.Sprintf("%s: %d not known, %d with problems, %d with notices",
		nodestatus.Plural(s.Nodes, "node"), s.Unknown, s.Problems, s.Notices)
	if len(s.Versions) > 1 {
		text += fmt.Sprintf("; %d versions of kube-vmap", len(s.Versions))
	}
	return text
}
