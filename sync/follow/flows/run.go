package flows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// Run deletes stale flows until ctx ends, which is not an error. It retries failures with backoff.
func (f *Flows) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.Ready():
		case <-f.readPace.timer.C:
			f.readPace.running = false
			if f.tracker.hasPending() {
				failed := false
				length := f.readPace.pace.Do(func() { failed = f.reconcile() })
				f.readPace.begin(failed, length)
			}
		}
		if f.readPace.running {
			continue // commits wait in their queue
		}
		if f.applyCommits(); f.tracker.hasPending() {
			f.readPace.begin(false, f.readPace.pace.Pause(0))
		}
	}
}

// staleFlows are the flows of a family that were stale before the latest commits.
type staleFlows struct {
	checks  pendingChecks
	queried bool
	entries []conntrack.Entry
	took    time.Duration
	err     error
}

// reconcile does the pending checks of each family independently. Both families are read
// before commits that arrived meanwhile are applied. Such a commit deletes no flow yet: it
// has its own time for replies. But flows that are valid again stay.
func (f *Flows) reconcile() (failed bool) {
	var found [len(model.Families)]staleFlows
	for _, family := range model.Families {
		found[family] = f.find(family)
	}
	f.applyCommits()
	var errs []error
	for _, family := range model.Families {
		if err := f.deleteStale(family, &found[family]); err != nil {
			errs = append(errs, err)
		}
	}
	first := !f.readPace.failing
	failed = len(errs) > 0
	switch {
	case failed && first:
		f.log.Warn("stale flows not deleted, retrying", "err", errors.Join(errs...))
	case !failed && !first:
		f.log.Info("stale flows deleted again")
	}
	return failed
}

func (f *Flows) find(family model.Family) (s staleFlows) {
	start := time.Now()
	s.checks = f.tracker.takePending(family)
	for _, q := range f.tracker.queries(family, s.checks) {
		s.queried = true
		entries, err := f.kernel.List(q, func(e conntrack.Entry) bool { return f.tracker.isStale(e, s.checks) })
		if err != nil {
			s.err = err
			break
		}
		s.entries = append(s.entries, entries...)
	}
	s.took = time.Since(start)
	return s
}

// deleteStale deletes the flows that are still stale.
func (f *Flows) deleteStale(family model.Family, s *staleFlows) error {
	if !s.queried {
		return nil
	}
	start := time.Now()
	s.entries = slices.DeleteFunc(s.entries, func(e conntrack.Entry) bool { return !f.tracker.isStale(e, s.checks) })
	n, err := 0, s.err
	if len(s.entries) > 0 {
		var failed error
		n, failed = f.kernel.Delete(s.entries)
		err = errors.Join(err, failed)
	}
	f.deleted[family] += n
	if err != nil {
		f.tracker.putBack(family, s.checks)
		return fmt.Errorf("delete stale flows: %w", err)
	}
	took := s.took + time.Since(start)
	f.log.Debug("stale flows deleted", "family", family, "flows", f.deleted[family], "took", took)
	f.Reconciled(family, f.deleted[family], took)
	f.deleted[family] = 0
	return nil
}
