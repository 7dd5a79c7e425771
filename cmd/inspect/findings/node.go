package findings

import (
	"cmp"
	"slices"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// recently is how long after an event it is a notice.
const recently = time.Hour

// OfNode returns what is wrong with the work of the process that made the document, or may
// surprise about it: problems before notices, each the worst first; none if the document has
// no health. What is wrong with single Services is not among them.
func OfNode(d *nodestatus.Document) []Finding {
	if d.Health == nil {
		return nil
	}
	n := &nodeFindings{Health: d.Health, document: d}
	if n.Takeover.State == nodestatus.TakeoverReturned { // it does nothing else
		n.takeover()
		return n.list
	}
	n.sync()
	n.tables()
	n.positions()
	n.takeover()
	n.unresponsive()
	n.addIf(n.WaitingPorts > 0, nodestatus.ReasonClientsWait, nodestatus.Args{Hit: n.WaitingPorts})
	n.events()
	for _, p := range d.Problems {
		n.addIf(p.Reason == nodestatus.ReasonUnread, p.Reason, nodestatus.Args{Message: cmp.Or(p.Message, p.Text)})
	}
	for _, p := range d.Health.Problems {
		n.addIf(p.Reason != model.ProblemNodePorts, p.Reason, nodestatus.Args{Message: p.Text})
	}
	slices.SortStableFunc(n.list, func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) }) // Problem, Notice
	return n.list
}

// nodeFindings collects findings. All times are by the clock of the node.
type nodeFindings struct {
	*nodestatus.Health
	document *nodestatus.Document
	list     []Finding
}

func (n *nodeFindings) add(reason string, a nodestatus.Args) *Finding {
	n.list = append(n.list, Finding{
		Severity: nodestatus.SeverityOf(reason), Object: "Node " + n.document.Node, Reason: reason, Args: a,
	})
	return &n.list[len(n.list)-1]
}

func (n *nodeFindings) addIf(is bool, reason string, a nodestatus.Args) {
	if is {
		n.add(reason, a)
	}
}

func (n *nodeFindings) since(t time.Time) int {
	return max(int(n.document.Time.Sub(t).Round(time.Second).Seconds()), 0)
}

func (n *nodeFindings) sync() {
	s := &n.Sync
	failing := !s.FailingSince.IsZero()
	n.addIf(failing, nodestatus.ReasonSyncFails, nodestatus.Args{Seconds: n.since(s.FailingSince), Message: s.Error})
	n.addIf(s.Overdue && !failing, nodestatus.ReasonOverdue, nodestatus.Args{Seconds: n.since(s.PendingSince)})
	n.addIf(!s.UnreadSince.IsZero(), nodestatus.ReasonNotCompared,
		nodestatus.Args{Seconds: n.since(s.UnreadSince), Message: s.Unread})
	if !n.document.Ready && s.Error == "" {
		var unread []string
		for _, p := range n.Positions {
			if p.ResourceVersion == "" {
				unread = append(unread, p.Kind)
			}
		}
		n.add(nodestatus.ReasonNothingYet, nodestatus.Args{Seconds: n.since(n.Started), Names: unread})
	}
	n.addIf(n.Refused.Ports > 0, nodestatus.ReasonPortsRefused, nodestatus.Args{Number: n.Refused.Ports})
}

func (n *nodeFindings) tables() {
	if !n.document.Ready {
		return
	}
	for _, t := range n.Tables {
		open := t.State == nodestatus.TableOpen
		if open && !n.Protect || t.State == nodestatus.TableOwned {
			continue
		}
		f := n.add(nodestatus.ReasonTableState, nodestatus.Args{Family: t.Family, Message: t.State})
		if open {
			f.Severity = notice
		}
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
			n.add(nodestatus.ReasonNotFollowing, nodestatus.Args{Message: p.Error})
		}
		f := &n.list[first+i]
		f.Names, f.Seconds = append(f.Names, p.Kind), max(f.Seconds, n.since(p.FailingSince))
	}
}

func (n *nodeFindings) takeover() {
	reason, found := map[string]string{
		nodestatus.TakeoverOtherProxy: nodestatus.ReasonOtherProxy,
		nodestatus.TakeoverReturned:   nodestatus.ReasonReturned,
		nodestatus.TakeoverProbation:  nodestatus.ReasonProbation,
	}[n.Takeover.State]
	n.addIf(found, reason, nodestatus.Args{Message: n.Takeover.Text})
}

func (n *nodeFindings) unresponsive() {
	if p := n.PassiveHealth; p != nil {
		n.addIf(p.LateSeconds > 0, nodestatus.ReasonChecksLate, nodestatus.Args{Seconds: p.LateSeconds})
		n.addIf(p.Endpoints > 0, nodestatus.ReasonUnresponsiveEndpoints, nodestatus.Args{Hit: p.Endpoints})
	}
}

// events adds what happened. Objects that cannot be used and conflicts are no problems of
// the process: their authors must correct them, and they are the same on each node.
func (n *nodeFindings) events() {
	isRecent := func(c nodestatus.Count) bool { return c.Count > 0 && n.document.Time.Sub(c.Last) < recently }
	off := n.document.FastPathReason()
	n.addIf(off != "", nodestatus.ReasonFastPathOff, nodestatus.Args{Message: off})
	n.addIf(isRecent(n.Repairs), nodestatus.ReasonRepaired,
		nodestatus.Args{Seconds: n.since(n.Repairs.Last), Number: n.Repairs.Count})
	n.addIf(n.Refused.Objects > 0, nodestatus.ReasonUnusableObjects, nodestatus.Args{Number: n.Refused.Objects})
	n.addIf(n.Refused.Conflicts > 0, nodestatus.ReasonConflicts, nodestatus.Args{Number: n.Refused.Conflicts})
	n.addIf(isRecent(n.Warnings), nodestatus.ReasonLogged,
		nodestatus.Args{Seconds: n.since(n.Warnings.Last), Message: n.Warnings.Text})
}
