package sync

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// View is what a [Loop] knows at one moment, for others to look at. Nothing of it
// must be changed, and all of it stays as it is.
type View struct {
	// Ready tells that the first state stands.
	Ready bool
	// Sure tells that it is known what the kernel holds. Else Standing is what it was
	// last known to hold, and the kernel is about to be read.
	Sure bool
	// Node is what is known of the proxy's own node.
	Node model.Node
	// Pods are the ranges that distinguish pods from other hosts, invalid in a family that
	// has none.
	Pods [len(model.Families)]netip.Prefix
	// NodeAddrs are addresses that serve node ports.
	NodeAddrs []netip.Addr
	// Standing are frontends that the kernel has taken, with their slots; in no order,
	// as the lists below.
	Standing []nft.InstalledFrontend
	// Services are those the source told of, programmed or not.
	Services []model.ServiceSnapshot
	// Scheduler is that of Services which name none.
	Scheduler model.Scheduler
	// Conflicts are claims that other Services hold.
	Conflicts []model.Conflict
	// Problems are those with objects. Those with the reason [ReasonRefused] are about
	// ports of Services ("namespace/name:port") that the kernel would not take, or
	// about whole Services for whose change it had no memory.
	Problems []Problem
}

// ReasonNodePorts is that node ports may not answer where they should. There is no
// event about it.
const ReasonNodePorts = "NodePorts"

// Problem is what is wrong with an object, or may surprise about it.
type Problem struct {
	Object
	// Reason is that of the event about it.
	Reason string
	Text   string
}

// errEnded is that there is no loop to ask any more.
var errEnded = errors.New("look at the state: the loop has ended")

// Look asks the loop's goroutine for what it knows. It waits while a batch is with
// the kernel. Nothing is kept for it while nobody asks.
func (l *Loop) Look(ctx context.Context) (View, error) {
	return look(ctx, l, l.view)
}

// Rules asks for the rule set that stands, and for a number that is another one once
// that has changed; nil if it is not known what stands.
func (l *Loop) Rules(ctx context.Context) (rules *nft.Ruleset, version int, err error) {
	type standing struct {
		rules   *nft.Ruleset
		version int
	}
	s, err := look(ctx, l, func() standing {
		if l.rules == nil {
			return standing{}
		}
		return standing{l.rules.Snapshot(), l.drift.version}
	})
	return s.rules, s.version, err
}

// look has the loop's goroutine look.
func look[T any](ctx context.Context, l *Loop, at func() T) (found T, err error) {
	answer := make(chan T, 1)
	select {
	case l.looks <- func() { answer <- at() }:
		return <-answer, nil
	case <-l.ended:
		return found, errEnded
	case <-ctx.Done():
		return found, ctx.Err()
	}
}

// view is what the loop knows now. It copies lists, and nothing that they lead to.
func (l *Loop) view() View {
	v := View{
		Ready: l.isReady(), Sure: l.rules != nil,
		Node:      l.state.node,
		Pods:      l.state.config.Rules.Pods,
		NodeAddrs: l.state.nodeAddrs,
		Services:  l.state.services.Snapshot(),
		Scheduler: l.state.config.Scheduler,
		Conflicts: l.state.services.Conflicts(),
		Problems:  l.allProblems(),
	}
	if v.Node.Name == "" {
		v.Node.Name = l.state.config.NodeName
	}
	switch {
	case l.rules != nil:
		v.Standing, v.NodeAddrs = l.rules.Installed(), l.rules.NodeAddrs()
	case l.before != nil:
		v.Standing, v.NodeAddrs = l.before.standing, l.before.nodeAddrs
	}
	return v
}

// stood is what a [View] has of a rule set. The rule set itself is not kept while the
// kernel is read and a new one is made: that would be all of it three times.
type stood struct {
	standing  []nft.InstalledFrontend
	nodeAddrs []netip.Addr
}

// isReady reports whether the first state stands.
func (l *Loop) isReady() bool {
	select {
	case <-l.ready:
		return true
	default:
		return false
	}
}

// allProblems are all that stand now.
func (l *Loop) allProblems() []Problem {
	var out []Problem
	add := func(list problems, reason string) {
		out = slices.Grow(out, len(list))
		for o, p := range list {
			out = append(out, Problem{o, reason, p.text})
		}
	}
	add(l.state.problems, ReasonUnusable)
	add(l.state.excesses, ReasonUnusable)
	add(l.state.warnings, ReasonOpen)
	for name, x := range l.refused {
		of := serviceOf(name)
		out = append(out, Problem{Object{Kind: "Service", Namespace: of.Namespace, Name: name[len(of.Namespace)+1:]}, ReasonRefused, x.text})
	}
	if l.nodeAddrsTold != "" {
		out = append(out, Problem{Object{Kind: "Node", Name: l.state.config.NodeName}, ReasonNodePorts, strings.TrimSpace(l.nodeAddrsTold)})
	}
	for name := range l.postponed {
		out = append(out, Problem{l.service(name), ReasonRefused, "no memory for its change, which is tried again"})
	}
	return out
}

// forget gives up what is believed of the kernel. What it was is kept for who looks
// until it is known again.
func (l *Loop) forget() {
	if l.rules != nil {
		l.before, l.rules = &stood{l.rules.Installed(), l.rules.NodeAddrs()}, nil
	}
}
