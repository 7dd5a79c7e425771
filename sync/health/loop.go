package health

import (
	"time"

	"kube-vmap/sync"
)

// A Loop is the work of the loop since the process started, for people. Unlike a
// response to a probe it has errors, which name objects.
type Loop struct {
	// Synced is when a sync last succeeded; zero if none has.
	Synced time.Time
	// FailingSince is when the first sync after that failed, and Err is the error of the
	// last one; zero and nil if none did.
	FailingSince time.Time
	Err          error
	// PendingSince is when the oldest change was queued that is not committed; zero if
	// there is none. Overdue means that the liveness probe fails for it.
	PendingSince time.Time
	Overdue      bool
	// Repairs counts repairs of tables that another program changed; Repaired is when the
	// last one was.
	Repairs  int
	Repaired time.Time
	// Counts after the last sync that succeeded; see [sync.Result].
	QuarantinedPorts, InvalidObjects, Conflicts int
}

// Loop returns the work of the loop so far.
func (h *Health) Loop() Loop {
	s := h.snapshot()
	s.loop.PendingSince = s.pendingSince
	_, s.loop.Overdue = h.overdue(s, time.Now())
	return s.loop
}

// synced records a sync.
func (l *Loop) synced(r sync.Result) {
	now := time.Now()
	if l.Err = r.Err; r.Err != nil {
		if l.FailingSince.IsZero() {
			l.FailingSince = now
		}
		return
	}
	l.Synced, l.FailingSince = now, time.Time{}
	l.QuarantinedPorts, l.InvalidObjects, l.Conflicts = r.QuarantinedPorts, r.InvalidObjects, r.Conflicts
	if r.Drift {
		l.Repairs, l.Repaired = l.Repairs+1, now
	}
}
