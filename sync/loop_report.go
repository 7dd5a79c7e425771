package sync

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// LevelBatch is the level of the line for each applied batch, of which a busy
// cluster has many a second: that of klog's V(2), at which kube-proxy tells of
// syncs.
const LevelBatch = slog.LevelInfo - 2

// report says in one line what a batch was and what stands now.
func (l *Loop) report(r Result) {
	if r.Drift {
		l.log.Warn("another program had changed our tables; repaired",
			"added", r.Counts.Added, "deleted", r.Counts.Deleted, "objects", r.Counts.Objects)
	}
	if r.Applied.Steps == 0 {
		l.log.Debug("nothing to change")
		return
	}
	l.log.Log(context.Background(), LevelBatch, "applied",
		"services", l.state.services.Len(), "endpoints", l.rules.Endpoints(),
		"batches", r.Applied.Steps, "messages", r.Applied.Messages, "bytes", r.Applied.Bytes,
		"added", r.Counts.Added, "deleted", r.Counts.Deleted, "objects", r.Counts.Objects,
		"took", r.Applied.Took.Round(time.Microsecond).String())
}

// observe tells the observer of a sync that worked and began at start.
func (l *Loop) observe(r Result, start time.Time) {
	r.Took = time.Since(start)
	r.Triggered = slices.SortedFunc(maps.Values(l.state.triggered), time.Time.Compare)
	clear(l.state.triggered)
	r.Services = l.state.services.Len()
	r.Endpoints = l.rules.Endpoints()
	r.RefusedPorts = len(l.refused) + len(l.postponed)
	r.RefusedObjects = len(l.state.problems) + len(l.state.excesses)
	r.Conflicts = l.state.services.ConflictCount()
	r.NotLocal = l.state.services.NoLocalEndpoints()
	l.observer.Synced(r)
}

// tellFollowers tells what the kernel has taken.
func (l *Loop) tellFollowers(c nft.Change, whole bool) {
	t := Committed{
		Full: whole, Set: c.Set, Gone: c.Gone, NodeAddrs: l.state.nodeAddrs,
		HealthChecks: l.untold.HealthChecks,
	}
	if whole {
		t.HealthChecks = l.state.services.HealthChecks()
	}
	l.untold = Committed{}
	for _, f := range l.followers {
		f.Follow(t)
	}
}

// notify reports what is wrong with an object, in a line of log and as an event,
// within the limits of its namespace.
func (l *Loop) notify(o Object, reason, note string, log func(*slog.Logger)) {
	skipped, ok := l.notices.take(o.Namespace)
	if !ok {
		return
	}
	to := l.log
	if skipped > 0 {
		to = to.With("skipped", skipped)
	}
	log(to)
	l.recorder.Warn(o, reason, note)
}

// tellProblem reports what is wrong with an object.
func (l *Loop) tellProblem(o Object, text string) {
	if len(text) > maxNotice {
		text = strings.ToValidUTF8(text[:maxNotice], "") + "..."
	}
	l.notify(o, ReasonUnusable, text, func(log *slog.Logger) {
		log.Warn("left out what cannot be used", "object", o.String(), "err", text)
	})
}

// tellNodeAddrs warns if node ports answer on more addresses than configured, or on
// none. A family in which no Service has a node port has nothing to warn about: most
// nodes of clusters with one family have addresses of the other, too.
func (l *Loop) tellNodeAddrs() {
	s := l.state
	var text string
	for _, f := range model.Families {
		ofFamily := func(a netip.Addr) bool { return model.FamilyOf(a) == f }
		switch {
		case s.services.NodePortCount(f) == 0 || !slices.ContainsFunc(s.interfaces, ofFamily):
		case s.config.NodePorts.Primary && !s.node.Addrs[f].IsValid() && s.config.NodePorts.All(f, s.node.Addrs):
			text += " the node's primary address of family " + f.String() + " is not known: node ports answer on all of them."
		case !slices.ContainsFunc(s.nodeAddrs, ofFamily):
			text += " no address of family " + f.String() + " on the node is one of those that should serve node ports."
		}
	}
	if text != l.nodeAddrsTold && text != "" {
		l.log.Warn("node ports may not answer where they should", "reason", strings.TrimSpace(text))
	}
	l.nodeAddrsTold = text
}

// tellWarning reports what may surprise about a Service that is served.
func (l *Loop) tellWarning(o Object, text string) {
	o = l.service(model.ServiceName{Namespace: o.Namespace, Name: o.Name})
	l.notify(o, ReasonOpen, text, func(log *slog.Logger) {
		log.Warn("a Service is open to more than it may seem", "service", o.Namespace+"/"+o.Name, "reason", text)
	})
}

// tellConflicts reports lost claims: of each Service one, and how many more there
// are.
func (l *Loop) tellConflicts(conflicts []model.Conflict) {
	lost := map[model.ServiceName]int{}
	for _, c := range conflicts {
		lost[c.Loser.ServiceName]++
	}
	for _, c := range conflicts {
		n := lost[c.Loser.ServiceName]
		if n == 0 {
			continue // reported
		}
		lost[c.Loser.ServiceName] = 0
		note := c.Match.String() + " is held by Service " + c.Winner.String() +
			", which is older or whose own address it is, and not served for this one"
		args := []any{"match", c.Match.String(), "winner", c.Winner.String(), "loser", c.Loser.String()}
		if n > 1 {
			note += fmt.Sprintf("; so are %d more of its addresses and ports", n-1)
			args = append(args, "more", n-1)
		}
		l.notify(l.service(c.Loser.ServiceName), ReasonConflict, note, func(log *slog.Logger) {
			log.Warn("another Service holds the address and port", args...)
		})
	}
}

// service refers to the Service of that name.
func (l *Loop) service(name model.ServiceName) Object {
	o := Object{Kind: "Service", Namespace: name.Namespace, Name: name.Name}
	if s := l.state.services.Service(name); s != nil {
		o.UID = s.UID
	}
	return o
}
