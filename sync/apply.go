package sync

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// LevelBatch is the level of the log line for each applied batch; a busy cluster has many
// a second. It is klog's V(2), where kube-proxy logs syncs.
const LevelBatch = slog.LevelInfo - 2

// apply applies the change, or everything if the kernel's state is unknown.
func (l *Loop) apply(change nft.Change) (Result, error) {
	if l.rules == nil {
		return l.applyAll()
	}
	return l.applyParts(l.quarantine.adjust(change, l.rules, l.desired.services))
}

// applyParts applies the change. It divides it into parts, each of whole Services, if one
// transaction would keep other programs from nf_tables for long, or the kernel has no
// memory for all of it together.
func (l *Loop) applyParts(change nft.Change) (Result, error) {
	plan := l.rules.Plan(change)
	if plan.Batch.Counts().Cost() > nft.StepElements {
		if first, second, divided := halves(change, l.rules.ServiceAt); divided {
			return l.applyBoth(first, second)
		}
	}
	r, err := l.send(plan.Batch)
	if err == nil {
		l.rules.Commit(plan)
		l.drift.changed()
		l.logResult(r)
		l.notifyFollowers(change, false)
		return r, nil
	}
	if !wire.IsOutOfMemory(err) || l.rules == nil { // the kernel may have some of it
		return r, err
	}
	first, second, divided := halves(change, l.rules.ServiceAt)
	if divided {
		return l.applyBoth(first, second)
	}
	if err := l.quarantineService(change, err); err != nil {
		return r, err
	}
	return l.applyParts(nft.Change{Removed: l.quarantine.takenFromOthers(change.Set, l.rules)})
}

func (l *Loop) applyBoth(first, second nft.Change) (Result, error) {
	r, err := l.applyParts(first)
	if err != nil {
		return r, err
	}
	more, err := l.applyParts(second)
	return r.and(more), err
}

// quarantineService puts the Service of a change that the kernel has no memory for into
// quarantine, and lets the others proceed. It returns the error if the change is not a
// Service's.
func (l *Loop) quarantineService(c nft.Change, err error) error {
	if len(c.Set) == 0 {
		return err
	}
	name := c.Set[0].Service.ServiceName
	log, level := l.log, slog.LevelDebug
	if l.quarantine.addService(name) {
		log = l.report.Notify(l.report.service(name), model.ProblemMemory, postponedText+": "+err.Error())
		level = slog.LevelError
	}
	log.Log(context.Background(), level, "kernel out of memory, Service change postponed", "service", name.String(),
		"err", err)
	return nil
}

// applyAll reads what the kernel holds, compares it with the desired state, and applies
// the difference. It works also if the tables do not exist yet.
func (l *Loop) applyAll() (Result, error) {
	foreign, err := l.kernel.ForeignChanges()
	if err != nil {
		return Result{}, fmt.Errorf("read the kernel: %w", err)
	}
	l.drift.foreign = foreign // before the read
	have, err := l.kernel.Read()
	if err != nil {
		return Result{}, fmt.Errorf("read the kernel: %w", err)
	}
	if err := have.Writable(); err != nil {
		return Result{}, fmt.Errorf("%w: %w", errOwned, err)
	}
	for _, id := range l.fullSets {
		have.MarkFull(id)
	}
	all := l.quarantine.withoutPorts(l.desired.all())
	rules, batch := nft.Adopt(l.config.Rules, have, all)
	r, err := l.send(batch)
	if err != nil {
		return r, err
	}
	l.rules, l.lastInstalled = rules, nil
	l.quarantine.allInstalled()
	r.Full, r.Drift = true, l.drift.compared(have, batch)
	l.report.owned = false
	l.logResult(r)
	all.Removed = rules.Missing(have)
	l.notifyFollowers(all, true)
	return r, nil
}

func (l *Loop) send(b nft.Batch) (Result, error) {
	if len(b) == 0 {
		return Result{}, nil
	}
	l.log.Debug("batch", "commands", b)
	applied, err := l.kernel.Apply(b)
	if err != nil {
		if applied.Steps > 0 {
			l.forgetRules() // the kernel has the steps before the one it refused
		}
		return Result{}, fmt.Errorf("apply batch: %w", err)
	}
	return Result{Applied: applied, Counts: b.Counts()}, nil
}

// logResult logs the changes of a batch and the installed totals.
func (l *Loop) logResult(r Result) {
	if r.Drift {
		l.log.Warn("repaired tables changed by another program",
			"added", r.Counts.Added, "deleted", r.Counts.Deleted, "objects", r.Counts.Objects)
	}
	if r.Applied.Steps == 0 {
		l.log.Debug("nothing to change")
		return
	}
	l.log.Log(context.Background(), LevelBatch, "applied",
		"services", l.desired.services.Len(), "endpoints", l.rules.Endpoints(),
		"batches", r.Applied.Steps, "messages", r.Applied.Messages, "bytes", r.Applied.Bytes,
		"added", r.Counts.Added, "deleted", r.Counts.Deleted, "objects", r.Counts.Objects,
		"took", r.Applied.Took.Round(time.Microsecond).String())
}

// observe reports to the observer a sync that succeeded and began at start.
func (l *Loop) observe(r Result, start time.Time) {
	d := l.desired
	r.Took = time.Since(start)
	r.Postponed = len(d.postponed) > 0
	r.Services = d.services.Len()
	r.Endpoints = l.rules.Endpoints()
	r.QuarantinedPorts = len(l.quarantine.ports)
	r.InvalidObjects = len(d.problems) + len(d.excesses)
	r.Conflicts = d.services.ConflictCount()
	r.NoLocalEndpoints = d.services.NoLocalEndpoints()
	r.NodeProblems = l.report.nodeProblems()
	l.config.Observer.Synced(r)
}

// notifyFollowers passes on what the kernel has committed.
func (l *Loop) notifyFollowers(c nft.Change, full bool) {
	committed := Committed{
		Full: full, Set: c.Set, Removed: c.Removed, NodeAddrs: l.rules.NodeAddrs(), HealthChecks: l.healthChecks,
	}
	if full {
		committed.HealthChecks = l.desired.services.HealthChecks()
	}
	l.healthChecks = nil
	for _, f := range l.config.Followers {
		f.Follow(committed)
	}
}

// halves divides a change into two, each of whole Services. Parts without a Service, and
// deletions of Services without other changes, come first. It reports whether there was
// anything to divide. The function at returns the Service that has a match now.
func halves(c nft.Change, at func(model.Match) model.ServiceName) (first, second nft.Change, divided bool) {
	of := func(f model.Frontend) model.ServiceName { return f.Service.ServiceName }
	stays := map[model.ServiceName]bool{}
	for i := range c.Set {
		stays[of(c.Set[i])] = true
	}
	var alone, others []model.Match
	for _, m := range c.Removed {
		if stays[at(m)] {
			others = append(others, m)
		} else {
			alone = append(alone, m)
		}
	}
	c.Removed = alone
	if len(c.Set) > 0 && (len(alone) > 0 || c.ServiceCIDRs != nil || c.NodeAddrs != nil) {
		second = nft.Change{Set: c.Set, Removed: others}
		c.Set = nil
		return c, second, true
	}
	if len(c.Set) == 0 {
		c.Removed, second.Removed, divided = halve(alone, at)
		return c, second, divided
	}
	first.Set, second.Set, divided = halve(c.Set, of)
	for _, m := range others {
		if divided && at(m).Compare(of(second.Set[0])) >= 0 {
			second.Removed = append(second.Removed, m)
		} else {
			first.Removed = append(first.Removed, m)
		}
	}
	return first, second, divided
}

// halve divides a list between the items of two Services, as near to its middle as
// possible. It reports false if all are of one Service.
func halve[T any](list []T, of func(T) model.ServiceName) (one, other []T, divided bool) {
	byService := func(a, b T) int { return of(a).Compare(of(b)) }
	list = slices.SortedStableFunc(slices.Values(list), byService)
	for step := range list {
		// From the middle in both directions.
		middle := len(list)/2 + (step+1)/2
		if step%2 == 0 {
			middle = len(list)/2 - step/2
		}
		if middle > 0 && middle < len(list) && byService(list[middle-1], list[middle]) != 0 {
			return list[:middle], list[middle:], true
		}
	}
	return list, nil, false
}
