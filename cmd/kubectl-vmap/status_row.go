package main

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

// severityUnknown is that of a node which could not be asked; the others are those of
// package nodestatus.
const severityUnknown = "Unknown"

// severityAbsent is that of a node without a pod of kube-vmap.
const severityAbsent = "Absent"

// A nodeRow is the state of one node.
type nodeRow struct {
	Node     string `json:"node"`
	Version  string `json:"version,omitempty"`
	Severity string `json:"severity"`
	// Ready reports whether the first state was programmed and the pod is ready; nil if that
	// is not known.
	Ready *bool `json:"ready,omitempty"`
	// Lag is nil if it is not known, or the node does not follow the API server.
	Lag *nodeLag `json:"lag,omitempty"`
	// Problems are the problems and then the notices, the worst first.
	Problems []findings.Finding `json:"problems,omitempty"`
	Health   *nodestatus.Health `json:"health,omitempty"` // nil if it is not known

	now time.Time // by the clock of the node
}

// newRow returns the row of a node that has answered, or of the error. The lag is added
// if objects are known.
func newRow(n nodes.Node, d *nodestatus.Document, err error, api objectVersions) nodeRow {
	row := nodeRow{Node: n.Name}
	if err == nil && d.Health == nil {
		err = fmt.Errorf("runs kube-vmap %s, which does not report its health", cmp.Or(d.Version, "of an older version"))
	}
	if d != nil {
		row.Version = d.Version
	}
	if err != nil {
		row = row.failed(err)
		if n.Absent {
			row.Severity = severityAbsent
		}
		return row
	}
	ready := d.Ready && n.Why == ""
	row.Ready, row.Health, row.Problems, row.now = &ready, d.Health, findings.WithTexts(findings.OfNode(d)), d.Time
	if n.Why != "" && d.Ready { // otherwise the problems of the node have it
		row.add(n.Why)
	}
	if api != nil {
		lag, err := api.lag(row.Health)
		switch row.Lag = lag; {
		case err != nil:
			row.add("the lag is not known: " + err.Error())
		case lag != nil && lag.sum() > 0:
			row.add(fmt.Sprintf("behind the API server: %s and %s are newer than what it has seen",
				nodestatus.Plural(lag.Services, "Service"), nodestatus.Plural(lag.EndpointSlices, "EndpointSlice")))
		}
	}
	row.Severity = nodestatus.SeverityOK
	if len(row.Problems) > 0 {
		row.Severity = row.Problems[0].Severity
	}
	return row
}

// failed returns the row of a node that could not be asked.
func (r nodeRow) failed(err error) nodeRow {
	var missing *nodes.MissingError
	var old *nodes.VersionError
	r.Severity = severityUnknown
	switch {
	case errors.As(err, &missing): // which is known from the API
		r.Severity, r.Ready = nodestatus.SeverityProblem, new(bool)
	case errors.As(err, &old):
		r.Version = old.Version
	}
	r.add(strings.ReplaceAll(err.Error(), "\n", "; "))
	return r
}

// add adds a problem before all others.
func (r *nodeRow) add(text string) {
	r.Problems = slices.Insert(r.Problems, 0, findings.Finding{Severity: nodestatus.SeverityProblem, Text: text})
}

// text returns the worst problem in words.
func (r *nodeRow) text() string {
	if len(r.Problems) == 0 {
		return "OK"
	}
	text := r.Problems[0].Text
	if more := len(r.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// ranks are the severities in the order of rows.
var ranks = []string{
	severityUnknown, nodestatus.SeverityProblem, nodestatus.SeverityNotice, nodestatus.SeverityOK,
	severityAbsent,
}

// sortRows sorts rows: problems first, and then by name.
func sortRows(rows []nodeRow) {
	slices.SortFunc(rows, func(a, b nodeRow) int {
		return cmp.Or(cmp.Compare(slices.Index(ranks, a.Severity), slices.Index(ranks, b.Severity)),
			strings.Compare(a.Node, b.Node))
	})
}
