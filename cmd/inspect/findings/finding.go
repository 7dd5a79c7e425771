// Package findings lists Services whose traffic is not spread over all their ready endpoints on a
// node, and why: each with the field of an object that causes it.
//
//	Document --Of--> []Finding --> kube-vmap problems, kubectl vmap problems, the pages
//
// Everything follows from the document, so that any program can list the findings of a
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

// Finding is one cause for which connections to a Service are not balanced over all ready
// endpoints, or fail; or a problem of another object. It is compared and merged by its values;
// [Finding.Sentence] puts it in words.
type Finding struct {
	Severity string `json:"severity"` // [nodestatus.SeverityProblem] or [nodestatus.SeverityNotice]
	// Object is "Service shop/web", "EndpointSlice shop/web-x7b2f" or "Node worker-1".
	// Namespace and Name are those of a Service.
	Object    string `json:"object"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Reason is one of the constants here, or that of a problem in the document; Kind
	// distinguishes findings with one reason and several sentences.
	Reason string `json:"reason"`
	Kind   string `json:"kind,omitempty"`
	// Field is the field that causes it, as in YAML, with its value if it has one: of the
	// object, unless it names another one. It is empty if it is not known.
	Field string `json:"field,omitempty"`
	// Ports are the Service's ports concerned, as "http/TCP", or "TCP" without a name,
	// Frontends their addresses and ports, Endpoints those of endpoints; at most 20 each.
	Ports           []string `json:"ports,omitempty"`
	Families        []string `json:"families,omitempty"`
	Frontends       []string `json:"frontends,omitempty"`
	Endpoints       []string `json:"endpoints,omitempty"`
	nodestatus.Args `json:"args,omitzero"`
	// Text is the sentence in JSON, see [WithTexts]; or the words of an error or of an older
	// program, which has no arguments.
	Text string `json:"text"`
}

// IsProblem reports whether it is more than a notice.
func (f *Finding) IsProblem() bool { return f.Severity == problem }

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
	// NotObserved is what no finding is about, so that an empty list does not exclude it.
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
			f.Reason, f.Kind = reasonNode, f.Reason
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
	field := p.Field
	switch p.Reason {
	case model.ProblemNodePorts:
		field = cmp.Or(field, fieldNodePorts)
	case model.ProblemOpen:
		field = FieldSourceRanges
	}
	return Finding{
		Severity: p.Severity(), Object: p.Object, Reason: p.Reason, Field: field, Args: p.Args,
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

// NameEndpoints gives the endpoints that the sentence names other names. Those with the same
// name are named once; those without one only if the sentence names them now.
func (f *Finding) NameEndpoints(name func(endpoint string) string) {
	var names []string
	for _, e := range f.Endpoints {
		n := name(e)
		if n == "" && slices.Contains(f.Named, e) {
			n = e
		}
		if n != "" {
			names = once(names, n)
		}
	}
	if len(f.Named) == 0 || len(names) == 0 {
		return
	}
	if f.NamedOf <= maxNamed { // each is known, perhaps by several addresses
		f.NamedOf = 0
	}
	f.Named, f.NamedOf = names[:min(len(names), maxNamed)], max(f.NamedOf, len(names))
}
