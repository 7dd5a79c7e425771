package health_test

import (
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/sync"
	"kube-vmap/sync/health"
)

func TestLoopSumsUpItsSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRig(t)
		expect := func(when string, want health.Loop) {
			t.Helper()
			if got := p.Loop(); got != want {
				t.Errorf("%s: %+v, want %+v", when, got, want)
			}
		}
		start := time.Now()
		at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
		expect("at the start", health.Loop{})
		p.Queued(sync.QueuedChanges{Services: 1})
		pass(time.Second)
		p.Synced(failed)
		pass(time.Second)
		p.Synced(failed)
		expect("while syncs fail", health.Loop{FailingSince: at(1), Err: failed.Err, PendingSince: start})
		pass(time.Minute)
		expect("after a minute", health.Loop{FailingSince: at(1), Err: failed.Err, PendingSince: start, Overdue: true})
		p.Synced(sync.Result{QuarantinedPorts: 1, InvalidObjects: 2, Conflicts: 3, Drift: true})
		repaired := health.Loop{Synced: at(62), QuarantinedPorts: 1, InvalidObjects: 2, Conflicts: 3, Repairs: 1, Repaired: at(62)}
		expect("after a repair", repaired)
		pass(time.Second)
		p.Synced(sync.Result{})
		expect("after a sync", health.Loop{Synced: at(63), Repairs: 1, Repaired: at(62)})
		pass(time.Second)
		p.Synced(failed)
		expect("after another failure", health.Loop{
			Synced: at(63), FailingSince: at(64), Err: failed.Err, PendingSince: at(64), Repairs: 1, Repaired: at(62),
		})
	})
}

// Health is updated once for each sync, whatever the number of changes in it.
func TestSyncAllocatesNothing(t *testing.T) {
	h := health.New(health.Config{SyncPeriod: time.Second})
	if n := testing.AllocsPerRun(100, func() {
		h.Queued(sync.QueuedChanges{Services: 1})
		h.Synced(sync.Result{Drift: true})
	}); n > 0 {
		t.Errorf("a sync takes %v allocations", n)
	}
}
