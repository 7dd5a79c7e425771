// Package findings lists Services whose traffic is not spread over all their ready endpoints on a
// node, and why: each with the field of an object that causes it.
//
//	Document --Of--> []Finding --> kube-vmap problems, kubectl vmap problems, the pages
//
// Everything follows from the document, so any program can list the findings of a
// node. A Service of which nothing is listed sends each new connection to any of its ready
// endpoints, whoever the client is.
package findings

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// Finding is a [nodestatus.Finding].
type Finding = nodestatus.Finding

const (
	problem = nodestatus.SeverityProblem
	notice  = nodestatus.SeverityNotice
)

// Schema is the version of [List] in JSON. Readers understand it and the one before.
const Schema = 1

// List is what "kube-vmap problems -o json" prints.
type List struct {
	Schema  int       `json:"schema"`
	Node    string    `json:"node"`
	Version string    `json:"version"` // of the process
	Time    time.Time `json:"time"`
	// ObservedSeconds is how long it was observed whether endpoints respond; zero means that
	// there are no findings about that. Without Counted, refusals over TCP are not known.
	ObservedSeconds float64   `json:"observedSeconds"`
	Counted         bool      `json:"counted"`
	Services        int       `json:"services"` // that were looked at
	Findings        []Finding `json:"findings"`
	// NotObserved is what no finding is about, so an empty list does not exclude it.
	NotObserved []string `json:"notObserved"`
}

// ListOf returns the list of a document, which must not be brief.
func ListOf(d *nodestatus.Document) List {
	return List{
		Schema: Schema, Node: d.Node, Version: d.Version, Time: d.Time, ObservedSeconds: d.ObservedSeconds,
		Counted: d.Counted, Services: len(d.Services), Findings: Of(d), NotObserved: notObserved(d),
	}
}

// Problems reports whether there is more than notices.
func (l *List) Problems() bool {
	return slices.ContainsFunc(l.Findings, func(f Finding) bool { return f.IsProblem() })
}

// ErrNotCounted is the error of a list for which [List.NotCounted] is true.
var ErrNotCounted = errors.New("connections are not counted, so there may be problems that are not listed")

// NotCounted reports whether something was not counted.
func (l *List) NotCounted() bool {
	return slices.ContainsFunc(l.Findings, func(f Finding) bool { return f.Reason == nodestatus.ReasonNotCounted })
}

// Of returns the findings of a document of a running process, which must not be brief:
// problems before notices, then by object, reason and field. It takes time in proportion to
// the document.
func Of(d *nodestatus.Document) []Finding {
	all := []Finding{}
	for _, f := range OfNode(d) {
		listed := slices.ContainsFunc(d.Problems, func(p nodestatus.Problem) bool { return p.Reason == f.Reason })
		if f.IsProblem() && !listed {
			f.Reason, f.Kind = nodestatus.ReasonNode, f.Reason
			all = append(all, f)
		}
	}
	for i := range d.Problems {
		all = append(all, ofProblem(&d.Problems[i]))
	}
	others := nodeScheduler{}
	for i := range d.Services {
		c := collector{service: &d.Services[i], other: &others}
		all = append(all, c.collect()...)
	}
	all = append(all, others.findings(d)...)
	slices.SortStableFunc(all, func(a, b Finding) int { return compare(&a, &b) })
	return all
}

func ofProblem(p *nodestatus.Problem) Finding {
	field := cmp.Or(p.Field, map[string]string{
		model.ProblemNodePorts: nodestatus.FieldNodePorts, model.ProblemOpen: nodestatus.FieldSourceRanges,
	}[p.Reason])
	return Finding{
		Severity: nodestatus.SeverityOf(p.Reason), Object: p.Object, Reason: p.Reason, Field: field, Args: p.Args,
		Text: strings.ReplaceAll(p.Text, "\n", "; "),
	}
}

// compare orders findings: problems before notices, then by object, reason and field.
func compare(a, b *Finding) int {
	return cmp.Or(
		cmp.Compare(b.Severity, a.Severity), // Problem, Notice
		cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Field, b.Field),
	)
}

// WithTexts sets the texts of findings, for JSON.
func WithTexts(list []Finding) []Finding {
	for i := range list {
		list[i].Text = list[i].Sentence()
	}
	return list
}

func notObserved(d *nodestatus.Document) []string {
	const notTried = "endpoints that no client tried meanwhile (explain --probe asks)"
	list := []string{"what firewalls and other programs drop (explain shows it)"}
	switch {
	case d.ObservedSeconds == 0:
		return append(list, "whether endpoints respond (--observe)")
	case !d.Counted:
		list = append(list, "resets, since connections are not counted")
	}
	return append(list, notTried)
}
