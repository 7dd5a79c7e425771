package status

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
)

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
