package top

import (
	"time"

	"kube-vmap/cmd/inspect/status"
)

// Sheet is what is shown of one [Answer].
type Sheet struct {
	time           time.Time // the latest of a document
	source         string
	node, version  string // of the only node
	nodes          int
	ready, counted bool
	fastPath       bool // whether connections take it on a node
	rows           []Row
	byID           map[id]int // of rows
	endpoints      bool       // whether numbers of endpoints are known
	summary        status.Summary
	state          string   // of the Service, in a detail view
	Notes          []string // problems, one line each
	alarms         []string // nodes that did not answer, are not ready, or do not use the fast path
	widest         [3]int   // of each of the names
	total          traffic
	rated          bool // whether the total rate is known
}

// id identifies a row.
type id [5]string

// Row is a line of a table: a Service, or one of its frontends or endpoints.
type Row struct {
	id    id
	order int // in the first document that has it
	// group keeps rows of a kind together, in any order.
	group int
	// Names are a Service's namespace and name; or a port, a kind and an address.
	Names     [3]string
	counts    []count
	used      int // endpoints that get connections
	all       int // endpoints in EndpointSlices, or used
	endpoints string
	severity  int
	status    string
	traffic
	rated bool // whether the rate is known
}

// Is reports whether two rows of different sheets are about the same.
func (r *Row) Is(other *Row) bool { return r.id == other.id }

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
	fastPath    int // of the active ones
}

// count is one of the counters of a row.
type count struct {
	counter counterID
	n       uint64
	at      time.Time // when it was read
	rate    float64   // per second, since the last read
	rated   bool
}

// counterID is a port of a Service in one IP family, on one node.
type counterID struct{ node, family, protocol, name string }

// newSheet returns the sheet of an answer; the rows of several documents with the same ID are
// added up. before is the previous sheet for the same query, or nil.
func newSheet(a Answer, rows func(*status.Document) []Row, before *Sheet) *Sheet {
	s := &Sheet{nodes: len(a.Documents), byID: map[id]int{}, alarms: cleanAll(a.Failed)}
	for _, d := range a.Documents {
		s.addDocument(d)
		for _, r := range rows(d) {
			s.addRow(r)
		}
	}
	s.summarize(a.Documents)
	for i := range s.rows {
		r := &s.rows[i]
		s.endpoints = s.endpoints || r.all > 0
		for n, name := range r.Names {
			s.widest[n] = max(s.widest[n], width(name))
		}
	}
	s.rate(before)
	s.sum()
	return s
}

// addDocument adds what a document states about its node.
func (s *Sheet) addDocument(d *status.Document) {
	if d.Time.After(s.time) {
		s.time = d.Time
	}
	s.source, s.node, s.version = Clean(d.Source), Clean(d.Node), Clean(d.Version)
	s.counted = s.counted || d.Counted
	s.fastPath = s.fastPath || d.IsFastPathOn()
	s.Notes = append(s.Notes, notes(d.Problems)...)
	ready := d.Ready || d.Source != status.FromDaemon
	s.ready = s.ready || ready
	if !ready && s.nodes > 1 {
		s.alarms = append(s.alarms, Clean(d.Node)+" is not ready")
	}
	if why := d.FastPathReason(); why != "" {
		s.alarms = append(s.alarms, Clean(d.Node+": the fast path is off: "+why))
	}
}

// addRow adds a row, or its numbers to the one with its ID. The worst status is shown.
func (s *Sheet) addRow(r Row) {
	i, found := s.byID[r.id]
	if !found {
		r.order = len(s.rows)
		s.byID[r.id] = r.order
		s.rows = append(s.rows, r)
		return
	}
	sum := &s.rows[i]
	sum.counts = append(sum.counts, r.counts...)
	sum.active += r.active
	sum.connections += r.connections
	sum.fastPath += r.fastPath
	if r.severity > sum.severity {
		sum.severity, sum.status = r.severity, r.status
	}
	if r.all > sum.all {
		sum.used, sum.all, sum.endpoints = r.used, r.all, r.endpoints
	}
}

// summarize counts Services by severity, and the problems of other objects.
func (s *Sheet) summarize(documents []*status.Document) {
	if len(documents) == 1 {
		s.summary = documents[0].Summary()
		return
	}
	others := map[string]bool{}
	for _, d := range documents {
		for _, p := range d.Problems {
			others[p.Object] = true
		}
	}
	s.summary = status.Summary{Services: len(s.rows), Others: len(others)}
	for i := range s.rows {
		switch s.rows[i].severity {
		case severityProblem:
			s.summary.Problems++
		case severityNotice:
			s.summary.Notices++
		}
	}
}

// sum adds up the first group; the others get the same connections.
func (s *Sheet) sum() {
	for i := range s.rows {
		if r := &s.rows[i]; r.group == 0 {
			s.total.rate += r.rate
			s.total.active += r.active
			s.total.connections += r.connections
			s.total.fastPath += r.fastPath
			s.rated = s.rated || r.rated
		}
	}
}

// find returns a row, or nil.
func (s *Sheet) find(what id) *Row {
	if i, ok := s.byID[what]; ok {
		return &s.rows[i]
	}
	return nil
}

// notes returns problems as lines.
func notes(problems []status.Problem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, Clean(p.Object+": "+p.Reason+": "+p.Text))
	}
	return out
}

func cleanAll(lines []string) []string {
	var out []string
	for _, l := range lines {
		out = append(out, Clean(l))
	}
	return out
}
