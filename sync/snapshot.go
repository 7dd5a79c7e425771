package sync

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// A Snapshot is the state of a [Loop] at one moment. It never changes, and must not be
// changed. Its lists are in no order.
type Snapshot struct {
	// Ready reports whether the first sync has succeeded.
	Ready bool
	// KernelKnown reports whether the kernel's state is known. If not, Installed is what
	// it last held, and the kernel is about to be read.
	KernelKnown bool
	// Node is the proxy's own node, as far as it is known.
	Node model.Node
	// PodRanges are the ranges that distinguish pods from other hosts; invalid in a family
	// without one.
	PodRanges [len(model.Families)]netip.Prefix
	// NodeAddrs are the addresses that serve node ports.
	NodeAddrs []netip.Addr
	// Installed are the frontends in the kernel, with their slots.
	Installed []nft.InstalledFrontend
	// Elsewhere are the frontends that only other nodes serve.
	Elsewhere []model.Frontend
	// Services are all Services of the source, served or not.
	Services []model.ServiceSnapshot
	// Scheduler is the one of Services that name none.
	Scheduler model.Scheduler
	// Conflicts are claims that other Services hold, health check node ports included.
	Conflicts []model.Conflict
	// Problems are about objects. Problems with the reason [model.ProblemRefused] are about
	// Service ports ("namespace/name:port") that the kernel refused.
	Problems []Problem
}

// A Problem is a fault of an object, or something that may surprise its author.
type Problem struct {
	Object
	Reason string // the event's reason
	Field  string // of the object, which causes it; may be unknown
	Text   string
}

// ErrEnded is the error of calls when the goroutine that makes them has ended.
var ErrEnded = errors.New("shutting down")

// Snapshot returns the state of the loop. It waits while the kernel applies a batch. The
// loop spends nothing on snapshots that are not requested.
func (l *Loop) Snapshot(ctx context.Context) (Snapshot, error) {
	return CallOn(ctx, l.requests, l.ended, l.snapshot)
}

// Ruleset returns a copy of the installed rule set, and its version, which changes with
// it. It returns nil if that is unknown.
func (l *Loop) Ruleset(ctx context.Context) (rules *nft.Ruleset, version int, err error) {
	type result struct {
		rules   *nft.Ruleset
		version int
	}
	r, err := CallOn(ctx, l.requests, l.ended, func() (r result) {
		if l.rules != nil {
			r = result{l.rules.Snapshot(), l.drift.version}
		}
		return r
	})
	return r.rules, r.version, err
}

// CallOn calls f on the goroutine that calls the functions of a channel until it has ended. If ctx ends
// first, f may still be called.
func CallOn[T any](
	ctx context.Context, requests chan<- func(), ended <-chan struct{}, f func() T,
) (result T, err error) {
	answer := make(chan T, 1)
	select {
	case requests <- func() { answer <- f() }:
		ended = nil // it is called in any case
	case <-ended:
	case <-ctx.Done():
	}
	select {
	case result = <-answer:
		return result, nil
	case <-ended:
		return result, ErrEnded
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// snapshot copies lists, but not the objects that they refer to.
func (l *Loop) snapshot() Snapshot {
	d := l.desired
	s := Snapshot{
		Ready: l.isReady(), KernelKnown: l.rules != nil,
		Node:      d.node,
		PodRanges: d.config.Rules.Pods,
		NodeAddrs: d.nodeAddrs,
		Elsewhere: d.services.Elsewhere(),
		Services:  d.services.Snapshot(),
		Scheduler: d.config.Scheduler,
		Conflicts: append(d.services.Conflicts(), d.services.HealthCheckConflicts()...),
		Problems:  l.problems(),
	}
	s.Node.Name = cmp.Or(s.Node.Name, d.config.NodeName)
	switch {
	case l.rules != nil:
		s.Installed, s.NodeAddrs = l.rules.Installed(), l.rules.NodeAddrs()
	case l.lastInstalled != nil:
		s.Installed, s.NodeAddrs = l.lastInstalled.frontends, l.lastInstalled.nodeAddrs
	}
	return s
}

// lastInstalled is the part of a rule set that a [Snapshot] needs. The rule set itself is
// not kept while a new one is built from the kernel's tables: all of it would be in
// memory three times.
type lastInstalled struct {
	frontends []nft.InstalledFrontend
	nodeAddrs []netip.Addr
}

func (l *Loop) isReady() bool {
	select {
	case <-l.ready:
		return true
	default:
		return false
	}
}

func (l *Loop) problems() []Problem {
	d := l.desired
	out := l.quarantine.problems(l.report.service)
	add := func(list objectProblems, reason string) {
		out = slices.Grow(out, len(list))
		for o, p := range list {
			out = append(out, Problem{o, reason, p.field, p.text})
		}
	}
	add(d.problems, model.ProblemUnusable)
	add(d.excesses, model.ProblemUnusable)
	add(d.warnings, model.ProblemOpen)
	return append(out, l.report.nodeProblems()...)
}
