package top

import (
	"time"

	"kube-vmap/cmd/inspect/status"
)

// sheet is what is shown of one document.
type sheet struct {
	time           time.Time
	countedAt      time.Time // when the counters were read
	source         string
	node, version  string
	ready, counted bool
	rows           []row
	byID           map[id]int // of rows
	endpoints      bool       // whether numbers of endpoints are known
	summary        status.Summary
	state          string   // of the Service, in a detail view
	notes          []string // problems, one line each
	widest         [3]int   // of each of the names
	total          traffic
	rated          bool // whether the total rate is known
}

// id identifies a row.
type id [5]string

// row is a line of a table: a Service, or one of its frontends or endpoints.
type row struct {
	id    id
	order int // in the document
	// group keeps rows of a kind together, in any order.
	group int
	// names are a Service's namespace and name; or a port, a kind and an address.
	names     [3]string
	counts    []count
	used      int // endpoints that get connections
	endpoints string
	known     bool // whether there are any endpoints
	severity  int
	status    string
	traffic
	rated bool // whether the rate is known
}

// Severities of a status.
const (
	severityOK = iota
	severityNotice
	severityProblem
)

// wrong marks a status that is a problem.
const wrong = "! "

func markProblem(status string) string { return wrong + status }

// traffic counts connections.
type traffic struct {
	rate        float64 // new connections per second
	active      int
	connections uint64
}

// count is one of the counters of a row.
type count struct {
	port portID
	n    uint64
}

// portID is a port of a Service in one IP family.
type portID struct{ family, protocol, name string }

// newSheet returns the sheet of a document. before is the previous one for the same query,
// or nil.
func newSheet(d *status.Document, rows func(*status.Document) []row, before *sheet) *sheet {
	s := &sheet{
		time: d.Time, countedAt: d.CountedAt, source: clean(d.Source), node: clean(d.Node), version: clean(d.Version),
		ready: d.Ready || d.Source != status.FromDaemon, counted: d.Counted,
		rows: rows(d), notes: notes(d.Problems), summary: d.Summary(),
	}
	s.byID = make(map[id]int, len(s.rows))
	for i := range s.rows {
		r := &s.rows[i]
		r.order = i
		s.byID[r.id] = i
		s.endpoints = s.endpoints || r.known
		for n, name := range r.names {
			s.widest[n] = max(s.widest[n], width(name))
		}
	}
	s.rate(before)
	s.sum()
	return s
}

// sum adds up the first group; endpoints get the same connections as frontends.
func (s *sheet) sum() {
	for i := range s.rows {
		if r := &s.rows[i]; r.group == 0 {
			s.total.rate += r.rate
			s.total.active += r.active
			s.total.connections += r.connections
			s.rated = s.rated || r.rated
		}
	}
}

// find returns a row, or nil.
func (s *sheet) find(what id) *row {
	if i, ok := s.byID[what]; ok {
		return &s.rows[i]
	}
	return nil
}

// notes returns problems as lines.
func notes(problems []status.Problem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, clean(p.Object+": "+p.Reason+": "+p.Text))
	}
	return out
}
