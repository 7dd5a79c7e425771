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

// Run ends flows until ctx ends, which is no error. What fails is tried again
// after a while.
func (f *Flows) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		case <-f.pause.over():
			f.pause.running = false
		}
		f.applyUpdates()
		if !f.pause.running && f.tracker.hasPending() {
			f.reconcile()
		}
	}
}

// reconcile does what is due, of each family by itself.
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
		f.log.Warn("flows that lead nowhere were not ended, trying again", "err", errors.Join(errs...))
	case !failed && !first:
		f.log.Info("flows that lead nowhere are ended again")
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
			return fmt.Errorf("end flows: %w", err)
		}
	}
	took := time.Since(start)
	f.log.Debug("flows that lead nowhere ended", "family", family, "flows", f.deleted[family], "took", took)
	f.reconciled(family, f.deleted[family], took)
	f.deleted[family] = 0
	return nil
}

// deleteStale ends what is stale of the entries that the query matches.
func (f *Flows) deleteStale(q conntrack.Query, job pendingChecks) (int, error) {
	stale := func(e conntrack.Entry) bool { return f.tracker.isStale(e, job) }
	entries, err := f.kernel.List(q, stale)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	// The kernel may have taken more while it listed: what was stale then may have
	// become the way to a new endpoint.
	f.applyUpdates()
	entries = slices.DeleteFunc(entries, func(e conntrack.Entry) bool { return !stale(e) })
	return f.kernel.Delete(entries)
}
