package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// Row is a Service or an endpoint, over all nodes.
type Row struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Endpoint and Node are the address of an endpoint, and where it is.
	Endpoint string `json:"endpoint,omitempty"`
	Node     string `json:"node,omitempty"`
	// Rate is of new connections per second; nil if it is not known.
	Rate *float64 `json:"rate"`
	nodestatus.Traffic

	Endpoints nodestatus.Addresses `json:"endpoints,omitzero"`
	// State is the worst one on a node, and Problem the first one there. For an endpoint State is why it
	// gets no connections.
	State    string `json:"state"`
	Severity string `json:"severity"`
	Problem  string `json:"problem,omitempty"`
}

// Table is what an answer shows.
type Table struct {
	rows      []*Row
	endpoints bool // rather than Services
	byKey     map[key]*Row
	counted   bool // whether a node counts connections
	fastPath  bool // whether connections take it on a node
	notes     []string
	summary   Summary
}

// Summary has the totals. Problems and notices are numbers of Services.
type Summary struct {
	Time   time.Time `json:"time"` // the latest of a node
	Nodes  int       `json:"nodes"`
	Failed []string  `json:"failed"` // nodes that did not answer, with the reason
	nodestatus.Summary

	Rate *float64 `json:"rate"`
	nodestatus.Traffic
}

func newTable(a answer, before readings, endpoints bool) *Table {
	t := &Table{byKey: map[key]*Row{}, endpoints: endpoints}
	t.summary.Nodes, t.summary.Failed = len(a.documents), append([]string{}, a.failed...)
	for _, d := range a.documents {
		t.add(d, before)
	}
	slices.SortFunc(t.rows, func(a, b *Row) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
			findings.CompareNames(a.Endpoint, b.Endpoint))
	})
	t.summarize(a.documents)
	return t
}

func (t *Table) add(d *nodestatus.Document, before readings) {
	if d.Time.After(t.summary.Time) {
		t.summary.Time = d.Time
	}
	t.counted = t.counted || d.Counted
	t.fastPath = t.fastPath || d.IsFastPathOn()
	if !d.Ready && d.Source == nodestatus.FromDaemon {
		t.note(d, "is not ready: its first state is not programmed yet")
	}
	if !d.Counted {
		t.note(d, "does not count connections (--count-connections=false): active ones only")
	}
	if why := d.FastPathReason(); why != "" {
		t.note(d, "has the fast path off: "+why)
	}
	items := itemsOf(d, t.endpoints)
	rates := before.rates(d, items)
	for k, i := range items {
		r := t.row(k)
		r.add(d, i)
		if rate, known := rates[k]; known {
			addRate(&r.Rate, rate)
		}
	}
}

const maxNotes = 3

func (t *Table) note(d *nodestatus.Document, text string) {
	t.notes = append(t.notes, strings.TrimSpace(d.Node+" "+text))
}

func (t *Table) row(k key) *Row {
	r := t.byKey[k]
	if r == nil {
		r = &Row{Namespace: k.namespace, Name: k.name, Endpoint: k.endpoint}
		t.byKey[k] = r
		t.rows = append(t.rows, r)
	}
	return r
}

// isIdle reports whether a row has no connections, new or open, and nothing is wrong with it.
func (r *Row) isIdle() bool {
	return r.Active == 0 && (r.Rate == nil || *r.Rate == 0) && r.Severity == nodestatus.SeverityOK
}

// add adds an item of a node. The worst state is shown.
func (r *Row) add(d *nodestatus.Document, i *item) {
	r.Traffic.Add(&i.Traffic)
	if e := i.endpoint; e != nil {
		if r.Node, r.Severity, r.State = e.Node, nodestatus.SeverityOK, cmp.Or(r.State, e.Reason); e.Used() {
			r.State = nodestatus.StateOK // on one of the nodes
		}
		return
	}
	s := i.service
	if n := s.EndpointCount(); n.All >= r.Endpoints.All {
		r.Endpoints = n
	}
	if severity := s.Severity(); r.State == "" || rank(severity) > rank(r.Severity) {
		r.State, r.Severity, r.Problem = d.StateOf(s), severity, s.FirstProblem()
	}
}

func rank(severity string) int { return slices.Index(nodestatus.Severities(), severity) }

func addRate(sum **float64, rate float64) {
	if *sum != nil {
		rate += **sum
	}
	*sum = &rate
}

// summarize sums the rows up. Of problems of other objects, it counts the node's with the
// most: all nodes read the same objects.
func (t *Table) summarize(documents []*nodestatus.Document) {
	s := &t.summary
	for _, d := range documents {
		s.Others = max(s.Others, d.Summary().Others)
	}
	for _, r := range t.rows {
		s.Traffic.Add(&r.Traffic)
		if r.Rate != nil {
			addRate(&s.Rate, *r.Rate)
		}
		if !t.endpoints {
			s.Count(r.Severity)
		}
	}
}

func (t *Table) text() string {
	s := &t.summary
	what := nodestatus.Plural(s.Services, "Service")
	if t.endpoints {
		what = nodestatus.Plural(len(t.rows), "endpoint")
	}
	out := fmt.Sprintf("%s  %s, %s", s.Time.Local().Format(time.TimeOnly),
		nodestatus.Plural(s.Nodes, "node"), what)
	if t.counted {
		out += fmt.Sprintf(": %s connections/s, %d active, %d so far", rateText(&Row{Rate: s.Rate}), s.Active, s.Connections)
	} else {
		out += fmt.Sprintf(": %d active connections", s.Active)
	}
	if t.fastPath {
		out += fmt.Sprintf(", %d on the fast path", s.FastPath)
	}
	if t.endpoints {
		return out
	}
	return out + fmt.Sprintf("; %d with problems, %d with notices, %s of other objects",
		s.Problems, s.Notices, nodestatus.Plural(s.Others, "problem"))
}

// warnings returns lines about what the numbers lack, of which there may be one for each node.
func (t *Table) warnings() (out []string) {
	for _, all := range [][]string{t.summary.Failed, t.notes} {
		for _, text := range all[:min(len(all), maxNotes)] {
			out = append(out, output.Clean(text))
		}
		if more := len(all) - maxNotes; more > 0 {
			out = append(out, fmt.Sprintf("and %s", nodestatus.Plural(more, "more node")))
		}
	}
	return out
}

type column struct {
	title, word string // the word is for --sort
	text        func(*Row) string
	// compare returns less than 0 if a comes first.
	compare func(a, b *Row) int
	// shown reports whether the column has anything to show; nil means always.
	shown func(*Table) bool
}

var columns = []column{
	name("NAMESPACE", func(r *Row) string { return r.Namespace }),
	name("SERVICE", func(r *Row) string { return r.Name }),
	{
		title: "ENDPOINT", word: "endpoint", text: func(r *Row) string { return r.Endpoint }, shown: ofEndpoints,
		compare: func(a, b *Row) int { return findings.CompareNames(a.Endpoint, b.Endpoint) },
	},
	{
		title: "NODE", word: "node", text: func(r *Row) string { return cmp.Or(r.Node, unknown) }, shown: ofEndpoints,
		compare: func(a, b *Row) int { return findings.CompareNames(a.Node, b.Node) },
	},
	greatest("CONN/S", "rate", valueOf, rateText, isCounted),
	greatest("ACTIVE", "active", func(r *Row) int { return r.Active }, nil, nil),
	greatest("FAST-PATH", "fast-path", func(r *Row) int { return r.FastPath }, nil, hasFastPath),
	greatest("RETRIED", "retried", func(r *Row) uint64 { return r.Retried }, nil, hasRefusals),
	greatest("REFUSED", "refused", func(r *Row) uint64 { return r.NotRetried }, nil, hasRefusals),
	greatest("CONNECTIONS", "connections", func(r *Row) uint64 { return r.Connections }, nil, isCounted),
	greatest("ENDPOINTS", "endpoints", func(r *Row) int { return r.Endpoints.Used }, endpointText, ofServices),
	greatest("STATUS", "status", func(r *Row) int { return rank(r.Severity) }, statusText, nil),
}

func isCounted(t *Table) bool   { return t.counted }
func hasFastPath(t *Table) bool { return t.fastPath }
func hasRefusals(t *Table) bool { return t.summary.Retried+t.summary.NotRetried > 0 }
func ofEndpoints(t *Table) bool { return t.endpoints }
func ofServices(t *Table) bool  { return !t.endpoints }

func name(title string, text func(*Row) string) column {
	compare := func(a, b *Row) int { return cmp.Compare(text(a), text(b)) }
	return column{title: title, word: strings.ToLower(title), text: text, compare: compare}
}

// greatest returns a column whose greatest value comes first. If text is nil, it is the value.
func greatest[V cmp.Ordered](
	title, word string, value func(*Row) V, text func(*Row) string, shown func(*Table) bool,
) column {
	if text == nil {
		text = func(r *Row) string { return fmt.Sprint(value(r)) }
	}
	compare := func(a, b *Row) int { return cmp.Compare(value(b), value(a)) }
	return column{title: title, word: word, text: text, compare: compare, shown: shown}
}

const unknown = "-"

func valueOf(r *Row) float64 {
	if r.Rate == nil {
		return 0
	}
	return *r.Rate
}

func rateText(r *Row) string {
	if r.Rate == nil {
		return unknown
	}
	return strconv.FormatFloat(*r.Rate, 'f', 1, 64)
}

func endpointText(r *Row) string { return fmt.Sprintf("%d/%d", r.Endpoints.Used, r.Endpoints.All) }

func statusText(r *Row) string {
	return strings.TrimSuffix(r.State+": "+r.Problem, ": ")
}

func sorts() (out []string) {
	for _, c := range columns {
		out = append(out, c.word)
	}
	return out
}

// sort sorts by a column, or by active connections if there is nothing in it.
func (t *Table) sort(word string) {
	by := columns[slices.IndexFunc(columns, func(c column) bool { return c.word == word })]
	if by.shown != nil && !by.shown(t) {
		t.sort("active")
		return
	}
	slices.SortStableFunc(t.rows, by.compare)
}

func (c *Config) print(t *Table, more bool) (err error) {
	t.sort(c.Sort)
	if c.Output == "" && !c.Idle {
		t.rows = slices.DeleteFunc(t.rows, (*Row).isIdle)
	}
	if c.Limit > 0 {
		t.rows = t.rows[:min(c.Limit, len(t.rows))]
	}
	if c.Output != "" {
		err = output.WriteList(c.Out, c.Output, append([]*Row{}, t.rows...), t.summary)
	} else {
		err = t.write(c.Out, more)
	}
	for _, w := range t.warnings() {
		_, _ = fmt.Fprintln(c.Err, w)
	}
	return err
}

// write writes the rows and the summary, after an empty line if there was a table before.
func (t *Table) write(w io.Writer, more bool) error {
	shown := slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.shown != nil && !c.shown(t) })
	row := func(text func(*column) string) (cells []string) {
		for i := range shown {
			cells = append(cells, text(&shown[i]))
		}
		return cells
	}
	var rows [][]string
	if len(t.rows) > 0 {
		rows = append(rows, row(func(c *column) string { return c.title }))
	}
	for _, r := range t.rows {
		rows = append(rows, row(func(c *column) string { return c.text(r) }))
	}
	if more {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	if err := output.Print(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, t.text())
	return err
}
