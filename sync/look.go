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

// Snapshot is what a [Loop] knows at one moment, for others to look at. Nothing of it
// must be changed, and all of it stays as it is.
type Snapshot struct {
	// Ready tells that the first state stands.
	Ready bool
	// KernelKnown tells that it is known what the kernel holds. Else Standing is what it was
	// last known to hold, and the kernel is about to be read.
	KernelKnown bool
	// Node is what is known of the proxy's own node.
	Node model.Node
	// PodRanges are the ranges that distinguish pods from other hosts, invalid in a family that
	// has none.
	PodRanges [len(model.Families)]netip.Prefix
	// NodeAddrs are addresses that serve node ports.
	NodeAddrs []netip.Addr
	// Installed are frontends that the kernel has taken, with their slots; in no order,
	// as the lists below.
	Installed []nft.InstalledFrontend
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

// errLoopEnded is that there is no loop to ask any more.
var errLoopEnded = errors.New("look at the state: the loop has ended")

// Snapshot asks the loop's goroutine for what it knows. It waits while a batch is with
// the kernel. Nothing is kept for it while nobody asks.
func (l *Loop) Snapshot(ctx context.Context) (Snapshot, error) {
	return onLoop(ctx, l, l.snapshot)
}

// Ruleset asks for the rule set that stands, and for a number that is another one once
// that has changed; nil if it is not known what stands.
func (l *Loop) Ruleset(ctx context.Context) (rules *nft.Ruleset, version int, err error) {
	type standing struct {
		rules   *nft.Ruleset
		version int
	}
	s, err := onLoop(ctx, l, func() standing {
		if l.rules == nil {
			return standing{}
		}
		return standing{l.rules.Snapshot(), l.drift.version}
	})
	return s.rules, s.version, err
}

// onLoop has the loop's goroutine look.
func onLoop[T any](ctx context.Context, l *Loop, at func() T) (found T, err error) {
	answer := make(chan T, 1)
	select {
	case l.snapshotRequests <- func() { answer <- at() }:
		return <-answer, nil
	case <-l.ended:
		return found, errLoopEnded
	case <-ctx.Done():
		return found, ctx.Err()
	}
}

// snapshot is what the loop knows now. It copies lists, and nothing that they lead to.
func (l *Loop) snapshot() Snapshot {
	v := Snapshot{
		Ready: l.isReady(), KernelKnown: l.rules != nil,
		Node:      l.state.node,
		PodRanges: l.state.config.Rules.Pods,
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
		v.Installed, v.NodeAddrs = l.rules.Installed(), l.rules.NodeAddrs()
	case l.lastInstalled != nil:
		v.Installed, v.NodeAddrs = l.lastInstalled.standing, l.lastInstalled.nodeAddrs
	}
	return v
}

// lastInstalled is what a [Snapshot] has of a rule set. The rule set itself is not kept while the
// kernel is read and a new one is made: that would be all of it three times.
type lastInstalled struct {
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
	add := func(list objectProblems, reason string) {
		out = slices.Grow(out, len(list))
		for o, p := range list {
			out = append(out, Problem{o, reason, p.text})
		}
	}
	add(l.state.problems, ReasonUnusable)
	add(l.state.excesses, ReasonUnusable)
	add(l.state.warnings, ReasonOpen)
	for name, x := range l.refused {
		port := strings.TrimPrefix(name.String(), name.Namespace+"/")
		out = append(out, Problem{Object{Kind: "Service", Namespace: name.Namespace, Name: port}, ReasonRefused, x.text})
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
		l.lastInstalled, l.rules = &lastInstalled{l.rules.Installed(), l.rules.NodeAddrs()}, nil
	}
}
