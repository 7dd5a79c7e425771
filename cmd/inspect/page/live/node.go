package live

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
)

type node struct {
	nodes.Node
	asking   bool
	next     time.Time // when to ask again
	took     time.Duration
	failures int   // since the last answer
	err      error // of the last question
	tallies  int   // so far
	// The last answer.
	at       time.Time // when it arrived; zero without any
	tally    nodestatus.Tally
	lines    []line        // sorted
	rated    bool          // whether rates are known
	tallied  map[key]state // of Services that are not OK, by the tally
	findings []findings.Finding
	states   map[key]state // the same, with those that have findings
}

// line is a Service on a node. There may be ten million of them in a cluster.
type line struct {
	of     *service
	count  uint64
	active int32
	rate   float32 // per second, if the node's rates are known
}

type state struct{ name, severity, problem string }

func (n *node) answered() bool { return !n.at.IsZero() && n.err == nil && !n.Missing }

// query requests the tally of a node, and after the first one and then rarely for its findings,
// which take longer, since the node observes endpoints for them. A list of nodes may change n
// meanwhile; of is what it was.
func (c *Cluster) query(ctx context.Context, n *node, of nodes.Node) {
	start := time.Now()
	tally, err := c.source.Tally(ctx, of)
	more := c.answer(n, tally, err, start)
	var list []findings.Finding
	if more {
		list, err = c.source.Findings(ctx, of)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if more {
		if n.findings = nil; err == nil { // after an error, the states in the tally are shown instead
			n.findings = list
		}
		n.setStates()
	}
	c.inFlight--
	n.asking = false
	n.next = start.Add(c.period(n))
}

// answer takes the answer of a node that was asked for its tally, and reports whether to ask
// for its findings.
func (c *Cluster) answer(n *node, tally *nodestatus.Tally, err error, asked time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.err, n.took = err, time.Since(asked)
	if err != nil {
		n.failures++
		return false
	}
	n.failures, n.at = 0, time.Now()
	c.take(n, tally)
	n.setStates()
	return n.tallies%findingsFactor == 1
}

func (c *Cluster) take(n *node, t *nodestatus.Tally) {
	seconds := t.CountedAt.Sub(n.tally.CountedAt).Seconds()
	again := t.Counted && n.tally.Counted && seconds == 0 // the same numbers
	longest := 2*c.period(n).Seconds() + 10
	rated := t.Counted && n.tally.Counted && seconds > 0 && seconds <= longest && n.tallies > 0
	lines := make([]line, len(t.Services))
	n.tallied = map[key]state{}
	for i := range t.Services {
		s := &t.Services[i]
		l := &lines[i]
		*l = line{of: c.serviceOf(key{s.Namespace, s.Name}), count: s.Connections, active: int32(s.Active)}
		if s.State != "" {
			n.tallied[l.of.key] = state{s.State, cmp.Or(s.Severity, nodestatus.SeverityOf(s.State)), s.Problem}
		}
		before := n.line(l.of.key)
		switch {
		case again && before != nil:
			l.rate = before.rate
		case rated && before == nil:
			l.rate = float32(float64(l.count) / seconds) // there were none
		case rated && l.count >= before.count:
			l.rate = float32(float64(l.count-before.count) / seconds)
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return a.of.compare(b.of.key) }) // as they should be
	n.rated = rated || again && n.rated
	n.lines, n.tally = lines, *t
	n.tally.Services = nil // they are in lines
	n.tallies++
}

// line returns a Service on the node; nil if it has no connections and is OK.
func (n *node) line(k key) *line {
	i, found := slices.BinarySearchFunc(n.lines, k, func(l line, k key) int { return l.of.compare(k) })
	if !found {
		return nil
	}
	return &n.lines[i]
}

// setStates sets the states of the Services, by tally and findings: the worst one counts, and of
// two that are as bad the tally's.
func (n *node) setStates() {
	n.states = maps.Clone(n.tallied)
	for i := range n.findings {
		f := &n.findings[i]
		k := key{f.Namespace, f.Name}
		if has := n.states[k]; has.name == "" || f.Severity == nodestatus.SeverityProblem && has.severity != f.Severity {
			n.states[k] = state{f.Reason, f.Severity, f.Text}
		}
	}
	delete(n.states, key{})
}

// Status is the state of a node.
type Status struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Text    string `json:"text,omitempty"` // why
	Version string `json:"version,omitempty"`
	// Rate is nil if it is not known.
	Rate     *float64 `json:"rate"`
	Active   *int     `json:"active"`
	Services int      `json:"services"`
	// Problems are those that are only there, or on few nodes.
	Problems int        `json:"problems"`
	At       *time.Time `json:"at,omitempty"` // of the last answer
}

// status returns the state of the node; own is how many problems are only there, or on few
// nodes.
func (n *node) status(own int) Status {
	out := Status{Name: n.Name, Version: n.tally.Version, Services: n.tally.Summary.Services, Problems: own}
	if !n.at.IsZero() {
		out.At = new(n.at)
	}
	switch {
	case n.Missing:
		out.State, out.Text = NodeMissing, n.Why
	case n.err != nil:
		out.State, out.Text = NodeSilent, n.err.Error()
	case n.at.IsZero():
		out.State = NodeWaiting
	case own > 0:
		out.State = NodeProblem
	default:
		out.State = NodeOK
	}
	if !n.answered() {
		return out
	}
	var rate float64
	var active int
	for i := range n.lines {
		rate += float64(n.lines[i].rate)
		active += int(n.lines[i].active)
	}
	if n.rated {
		out.Rate = &rate
	}
	if n.tally.Counted {
		out.Active = &active
	}
	return out
}
