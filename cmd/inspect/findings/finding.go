package findings

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// Finding is one cause for which connections to a Service are not balanced over all ready
// endpoints, or fail; or a problem of another object.
type Finding struct {
	Severity string `json:"severity"` // [status.SeverityProblem] or [status.SeverityNotice]
	// Object is "Service shop/web", "EndpointSlice shop/web-x7b2f" or "Node worker-1".
	// Namespace and Name are those of a Service.
	Object    string `json:"object"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Reason is one of the constants here, or that of a problem in the document.
	Reason string `json:"reason"`
	// Field is the field that causes it, as in YAML, with its value if it has one: of the
	// object, unless it names another one. It is empty if it is not known.
	Field string `json:"field,omitempty"`
	// Ports are the Service's ports concerned, as "http/TCP", or "TCP" without a name,
	// Frontends their addresses and ports, Endpoints those of endpoints; at most 20 each.
	Ports     []string `json:"ports,omitempty"`
	Families  []string `json:"families,omitempty"`
	Frontends []string `json:"frontends,omitempty"`
	Endpoints []string `json:"endpoints,omitempty"`
	Text      string   `json:"text"`
}

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
func ListOf(d *status.Document) List {
	l := List{
		Schema: Schema, Node: d.Node, Version: d.Version, Time: d.Time, ObservedSeconds: d.ObservedSeconds,
		Counted: d.Counted, Services: len(d.Services), Findings: Of(d), NotObserved: notObserved(d),
	}
	if l.Findings == nil {
		l.Findings = []Finding{}
	}
	return l
}

// notObserved returns what the findings of a document do not cover.
func notObserved(d *status.Document) []string {
	list := []string{"what firewalls and other programs drop (explain shows it)"}
	switch {
	case d.ObservedSeconds == 0:
		list = append(list, "whether endpoints respond (--observe)")
	case !d.Counted:
		list = append(list, "resets, since connections are not counted", notTried)
	default:
		list = append(list, notTried)
	}
	return list
}

const notTried = "endpoints that no client tried meanwhile (explain --probe asks)"

// NotObservedText returns a list of what was not observed as a line.
func NotObservedText(list []string) string { return "Not looked at: " + strings.Join(list, "; ") }

// Problems reports whether there is more than notices.
func (l *List) Problems() bool {
	return slices.ContainsFunc(l.Findings, func(f Finding) bool { return f.Severity == status.SeverityProblem })
}

// Of returns the findings of a document of a running process, which must not be brief:
// problems before notices, then by object, reason and field. It takes time in proportion to
// the document.
func Of(d *status.Document) (all []Finding) {
	for _, p := range d.NodeProblems() {
		listed := slices.ContainsFunc(d.Problems, func(o status.Problem) bool { return o.Text != "" && strings.Contains(p.Text, o.Text) })
		if p.Severity == status.SeverityProblem && !listed {
			all = append(all, Finding{Severity: p.Severity, Object: "Node " + d.Node, Reason: reasonNode, Text: p.Text})
		}
	}
	for i := range d.Problems {
		p := &d.Problems[i]
		all = append(all, Finding{
			Severity: p.Severity(), Object: p.Object, Reason: p.Reason, Field: fieldOf(p), Text: oneLine(p.Text),
		})
	}
	others := nodeScheduler{}
	for i := range d.Services {
		c := collector{service: &d.Services[i], other: &others}
		all = append(all, c.collect()...)
	}
	all = append(all, others.findings(d)...)
	return sorted(all)
}

// sorted returns the list in order. To sort references is much faster, since findings are
// large.
func sorted(list []Finding) []Finding {
	refs := make([]*Finding, len(list))
	for i := range list {
		refs[i] = &list[i]
	}
	slices.SortStableFunc(refs, func(a, b *Finding) int { return Compare(*a, *b) })
	out := make([]Finding, len(list))
	for i, f := range refs {
		out[i] = *f
	}
	return out
}

// Compare orders findings: problems before notices, then by object, reason and field.
func Compare(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(b.Severity, a.Severity), // Problem, Notice
		cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Field, b.Field),
	)
}
