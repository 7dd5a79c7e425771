package status

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A NodeProblem is what is wrong with the work of a process, or may surprise about it.
// What is wrong with single Services is not among them.
type NodeProblem struct {
	Severity string `json:"severity"` // SeverityProblem or SeverityNotice
	Text     string `json:"text"`
}

// recently is how long after an event it is a notice.
const recently = time.Hour

// NodeProblems returns the problems and then the notices of the process that made the
// document, each the worst first; none if the document has no health.
func (d *Document) NodeProblems() []NodeProblem {
	if d.Health == nil {
		return nil
	}
	n := &nodeProblems{Health: d.Health, ready: d.Ready, now: d.Time}
	if n.Takeover.State == TakeoverReturned { // it does nothing else
		n.takeover()
		return n.list
	}
	n.sync()
	n.tables()
	n.positions()
	n.takeover()
	if why := d.FastPathReason(); why != "" {
		n.add(SeverityNotice, "the fast path is off: %s", why)
	}
	n.events()
	for _, p := range d.Problems {
		if p.Reason == ReasonUnread {
			n.add(SeverityProblem, "the kernel cannot be read: %s", p.Text)
		}
	}
	slices.SortStableFunc(n.list, func(a, b NodeProblem) int { return strings.Compare(b.Severity, a.Severity) }) // Problem, Notice
	return n.list
}

// nodeProblems collects problems. All times are by the clock of the node.
type nodeProblems struct {
	*Health
	ready bool
	now   time.Time
	list  []NodeProblem
}

func (n *nodeProblems) add(severity, format string, args ...any) {
	n.list = append(n.list, NodeProblem{severity, fmt.Sprintf(format, args...)})
}

// since returns how long ago something began.
func (n *nodeProblems) since(t time.Time) string { return Duration(n.now.Sub(t)) }

func (n *nodeProblems) sync() {
	s := &n.Sync
	switch {
	case !s.FailingSince.IsZero():
		n.add(SeverityProblem, "changes have not reached the kernel for %s: %s", n.since(s.FailingSince), s.Error)
	case s.Overdue:
		n.add(SeverityProblem, "changes have been waiting for the kernel for %s", n.since(s.PendingSince))
	}
	if !n.ready && s.Error == "" {
		n.add(SeverityProblem, "nothing is programmed yet, %s after the start%s", n.since(n.Started), n.unread())
	}
	if p := n.Refused.Ports; p > 0 {
		n.add(SeverityProblem, "the kernel refuses %s", Plural(p, "Service port"))
	}
}

// unread returns what must be read before anything is programmed.
func (n *nodeProblems) unread() string {
	var kinds []string
	for _, p := range n.Positions {
		if p.ResourceVersion == "" {
			kinds = append(kinds, p.Kind)
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return ": no list yet of " + strings.Join(kinds, ", ")
}

func (n *nodeProblems) tables() {
	if !n.ready {
		return
	}
	texts := map[string]string{
		TableForeign: "belongs to another program, so that nothing can be changed",
		TableDormant: "is disabled by another program, so that no packet reaches it",
		TableMissing: "is missing",
	}
	for _, t := range n.Tables {
		if text, bad := texts[t.State]; bad {
			n.add(SeverityProblem, "the table of %s %s", t.Family, text)
		} else if n.Protect && t.State == TableOpen {
			n.add(SeverityNotice, "the table of %s has no owner, so that other programs can change it", t.Family)
		}
	}
}

// positions adds one problem for all kinds that fail with the same error.
func (n *nodeProblems) positions() {
	var errors []string
	byError := map[string][]Position{}
	for _, p := range n.Positions {
		if p.FailingSince.IsZero() {
			continue
		}
		if byError[p.Error] == nil {
			errors = append(errors, p.Error)
		}
		byError[p.Error] = append(byError[p.Error], p)
	}
	for _, text := range errors {
		since := n.now
		var kinds []string
		for _, p := range byError[text] {
			kinds = append(kinds, p.Kind)
			if p.FailingSince.Before(since) {
				since = p.FailingSince
			}
		}
		n.add(SeverityProblem, "the API server cannot be followed for %s (%s): %s", n.since(since), strings.Join(kinds, ", "), text)
	}
}

func (n *nodeProblems) takeover() {
	switch n.Takeover.State {
	case TakeoverOtherProxy, TakeoverReturned:
		n.add(SeverityProblem, "%s", n.Takeover.Text)
	case TakeoverProbation:
		n.add(SeverityNotice, "%s", n.Takeover.Text)
	}
}

// events adds what happened. Objects that cannot be used and conflicts are no problems of
// the process: their authors must correct them, and they are the same on each node.
func (n *nodeProblems) events() {
	if r := n.Repairs; r.Count > 0 && n.now.Sub(r.Last) < recently {
		n.add(SeverityNotice, "tables that another program changed were repaired, last %s ago; %s since the start",
			n.since(r.Last), Plural(r.Count, "time"))
	}
	if r := n.Refused; r.Objects > 0 {
		n.add(SeverityNotice, "%s cannot be used, wholly or in part", Plural(r.Objects, "object"))
	}
	if r := n.Refused; r.Conflicts > 0 {
		n.add(SeverityNotice, "other Services hold %d of the addresses and ports of Services", r.Conflicts)
	}
	if w := n.Warnings; w.Count > 0 && n.now.Sub(w.Last) < recently {
		n.add(SeverityNotice, "logged %s ago: %s", n.since(w.Last), w.Text)
	}
}

// Plural returns a number and a noun: "1 node", "2 nodes".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// JoinFirst joins the first names of a list, at most limit, and adds how many more of all there
// are: "a, b and 3 more". Package findings parses that ending.
func JoinFirst(list []string, all, limit int) string {
	text := strings.Join(list[:min(len(list), limit)], ", ")
	if more := all - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Duration returns a duration in its two largest units: 3d4h, 2h5m, 4m10s, 3s.
func Duration(d time.Duration) string {
	d = max(d.Round(time.Second), 0)
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.String()
}
