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

// Run deletes stale flows until ctx ends, which is not an error. It retries failures with
// backoff.
func (f *Flows) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.Ready():
		case <-f.pause.over():
			f.pause.running = false
			if f.tracker.hasPending() {
				f.reconcile()
			}
		}
		if f.pause.running {
			continue // commits wait in their queue
		}
		if f.applyCommits(); f.tracker.hasPending() {
			f.pause.begin(false, 0)
		}
	}
}

// reconcile does the pending checks of each family independently.
func (f *Flows) reconcile() {
	start := time.Now()
	var errs []error
	for _, family := range model.Families {
		if err := f.reconcileFamily(family); err != nil {
			errs = append(errs, err)
		}
	}
	first, failed := !f.pause.failing, len(errs) > 0
	switch {
	case failed && first:
		f.log.Warn("stale flows not deleted, retrying", "err", errors.Join(errs...))
	case !failed && !first:
		f.log.Info("stale flows deleted again")
	}
	f.pause.begin(failed, time.Since(start))
}

func (f *Flows) reconcileFamily(family model.Family) error {
	start, job := time.Now(), f.tracker.takePending(family)
	queries := f.tracker.queries(family, job)
	if len(queries) == 0 {
		return nil
	}
	for _, q := range queries {
		n, err := f.deleteStale(q, job)
		f.deleted[family] += n
		if err != nil {
			f.tracker.putBack(family, job)
			return fmt.Errorf("delete stale flows: %w", err)
		}
	}
	took := time.Since(start)
	f.log.Debug("stale flows deleted", "family", family, "flows", f.deleted[family], "took", took)
	f.reconciled(family, f.deleted[family], took)
	f.deleted[family] = 0
	return nil
}

// deleteStale deletes the stale entries among those that the query matches.
func (f *Flows) deleteStale(q conntrack.Query, job pendingChecks) (int, error) {
	stale := func(e conntrack.Entry) bool { return f.tracker.isStale(e, job) }
	entries, err := f.kernel.List(q, stale)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	// The loop may have committed more meanwhile: stale entries may be valid now.
	f.applyCommits()
	entries = slices.DeleteFunc(entries, func(e conntrack.Entry) bool { return !stale(e) })
	return f.kernel.Delete(entries)
}
