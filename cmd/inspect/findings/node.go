package findings

import (
	"cmp"
	"slices"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// recently is how long after an event it is a notice.
const recently = time.Hour

// OfNode returns what is wrong with the work of the process that made the document, or may
// surprise about it: problems before notices, each the worst first; none if the document has
// no health. What is wrong with single Services is not among them.
func OfNode(d *status.Document) []Finding {
	if d.Health == nil {
		return nil
	}
	n := &nodeFindings{Health: d.Health, document: d}
	if n.Takeover.State == status.TakeoverReturned { // it does nothing else
		n.takeover()
		return n.list
	}
	n.sync()
	n.tables()
	n.positions()
	n.takeover()
	if why := d.FastPathReason(); why != "" {
		n.add(status.SeverityNotice, FastPathOff, status.Args{Message: why})
	}
	n.events()
	for _, p := range d.Problems {
		if p.Reason == status.ReasonUnread {
			n.add(status.SeverityProblem, status.ReasonUnread, status.Args{Message: cmp.Or(p.Message, p.Text)})
		}
	}
	slices.SortStableFunc(n.list, func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) }) // Problem, Notice
	return n.list
}

// nodeFindings collects findings. All times are by the clock of the node.
type nodeFindings struct {
	*status.Health
	document *status.Document
	list     []Finding
}

func (n *nodeFindings) add(severity, reason string, a status.Args) {
	n.list = append(n.list, Finding{Severity: severity, Object: "Node " + n.document.Node, Reason: reason, Args: a})
}

// since returns for how many seconds something is so.
func (n *nodeFindings) since(t time.Time) int {
	return max(int(n.document.Time.Sub(t).Round(time.Second).Seconds()), 0)
}

func (n *nodeFindings) sync() {
	s := &n.Sync
	switch {
	case !s.FailingSince.IsZero():
		n.add(status.SeverityProblem, SyncFails, status.Args{Seconds: n.since(s.FailingSince), Message: s.Error})
	case s.Overdue:
		n.add(status.SeverityProblem, Overdue, status.Args{Seconds: n.since(s.PendingSince)})
	}
	if !n.document.Ready && s.Error == "" {
		var unread []string
		for _, p := range n.Positions {
			if p.ResourceVersion == "" {
				unread = append(unread, p.Kind)
			}
		}
		n.add(status.SeverityProblem, NothingYet, status.Args{Seconds: n.since(n.Started), Names: unread})
	}
	if p := n.Refused.Ports; p > 0 {
		n.add(status.SeverityProblem, PortsRefused, status.Args{Number: p})
	}
}

func (n *nodeFindings) tables() {
	if !n.document.Ready {
		return
	}
	for _, t := range n.Tables {
		severity := status.SeverityProblem
		switch {
		case t.State == status.TableOpen && n.Protect:
			severity = status.SeverityNotice
		case t.State == status.TableOpen, t.State == status.TableOwned:
			continue
		}
		n.add(severity, TableState, status.Args{Family: t.Family, Message: t.State})
	}
}

// positions adds one problem for all kinds that fail with the same error.
func (n *nodeFindings) positions() {
	first := len(n.list)
	for _, p := range n.Positions {
		if p.FailingSince.IsZero() {
			continue
		}
		i := slices.IndexFunc(n.list[first:], func(f Finding) bool { return f.Message == p.Error })
		if i < 0 {
			i = len(n.list) - first
			n.add(status.SeverityProblem, NotFollowing, status.Args{Message: p.Error})
		}
		f := &n.list[first+i]
		f.Names, f.Seconds = append(f.Names, p.Kind), max(f.Seconds, n.since(p.FailingSince))
	}
}

func (n *nodeFindings) takeover() {
	text := status.Args{Message: n.Takeover.Text}
	switch n.Takeover.State {
	case status.TakeoverOtherProxy:
		n.add(status.SeverityProblem, status.ReasonOtherProxy, text)
	case status.TakeoverReturned:
		n.add(status.SeverityProblem, status.ReasonReturned, text)
	case status.TakeoverProbation:
		n.add(status.SeverityNotice, status.ReasonProbation, text)
	}
}

// events adds what happened. Objects that cannot be used and conflicts are no problems of
// the process: their authors must correct them, and they are the same on each node.
func (n *nodeFindings) events() {
	if r := n.Repairs; r.Count > 0 && n.document.Time.Sub(r.Last) < recently {
		n.add(status.SeverityNotice, Repaired, status.Args{Seconds: n.since(r.Last), Number: r.Count})
	}
	if r := n.Refused; r.Objects > 0 {
		n.add(status.SeverityNotice, Unusable, status.Args{Number: r.Objects})
	}
	if r := n.Refused; r.Conflicts > 0 {
		n.add(status.SeverityNotice, Conflicts, status.Args{Number: r.Conflicts})
	}
	if w := n.Warnings; w.Count > 0 && n.document.Time.Sub(w.Last) < recently {
		n.add(status.SeverityNotice, Logged, status.Args{Seconds: n.since(w.Last), Message: w.Text})
	}
}
