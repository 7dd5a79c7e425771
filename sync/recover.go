package sync

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// errOwned is the error for tables that belong to another process.
var errOwned = errors.New("not ours")

// ownershipPollInterval is how often to check whether another process still owns the
// tables.
const ownershipPollInterval = time.Second

// tryRecover adjusts the state to retry the same change without reading the kernel again.
// It reports whether a retry makes sense.
//
// An error is proof against the Service port that it names only if no other process can
// have changed our tables since they were known.
func (l *Loop) tryRecover(err error) bool {
	var refusal *wire.Error
	if !errors.As(err, &refusal) {
		return false
	}
	switch {
	case l.rebuildFullSet(refusal):
		return true
	case refusal.Cause() == wire.CauseState:
		return false
	case l.quarantineOffenders(refusal, l.quarantine.isRetrying):
		return true
	}
	return !l.drift.possible() && l.quarantineOffenders(refusal, l.quarantine.lacks)
}

// rebuildFullSet has a set rebuilt that was refused for being full. It does so once for
// each set until a sync succeeds: a failed remedy is not repeated.
func (l *Loop) rebuildFullSet(refusal *wire.Error) bool {
	set, adds := nft.AddsTo(refusal.Op)
	if refusal.Cause() != wire.CauseFull || !adds || slices.Contains(l.fullSets, set) {
		return false
	}
	l.fullSets = append(l.fullSets, set)
	if l.rules != nil {
		l.rules.MarkFull(set)
	}
	return true
}

// handleFailure prepares the next sync, which reads the kernel: immediately if the error
// says what to do differently, else after a backoff.
func (l *Loop) handleFailure(err error) {
	var refusal *wire.Error
	rules := l.rules
	l.forgetRules()
	switch refused := errors.As(err, &refusal); {
	case errors.Is(err, errOwned):
		l.report.tablesOwned(err)
		l.retryAfter(ownershipPollInterval)
	case refused && rules != nil && refusal.Cause() != wire.CauseMemory && refusal.Cause() != wire.CausePermission:
		l.log.Warn("change refused, reading the kernel again", "err", err)
		// An object that is missing, or exists already, may not be as we left it.
		l.drift.suspected = refusal.Cause() == wire.CauseState && l.drift.possible() &&
			len(l.drift.readHere(rules).repair) > 0
		l.retryAfter(0)
	case refused && l.rebuildFullSet(refusal):
		l.retryAfter(0)
	// If an object is missing, or exists already, changes since the read may be the
	// cause.
	case refused && !(refusal.Cause() == wire.CauseState && l.drift.disturbed()) &&
		l.quarantineOffenders(refusal, l.quarantine.lacks),
		refused && l.quarantineExhausting(refusal):
		l.retryAfter(0)
	default:
		l.log.Error("sync failed", "err", err)
		l.retryAfter(l.backoff.Step())
	}
}

// quarantineExhausting puts the Service port into quarantine that the kernel had no memory for
// in two full comparisons in a row.
func (l *Loop) quarantineExhausting(refusal *wire.Error) bool {
	if refusal.Cause() != wire.CauseMemory || !refusal.NamesService() ||
		!l.quarantine.recordMemoryExhausted(refusal.Service) {
		return false
	}
	l.quarantinePort(refusal)
	return true
}

// quarantineOffenders puts the Service ports into quarantine that the kernel refused and that
// eligible allows. It reports whether there were any.
func (l *Loop) quarantineOffenders(err *wire.Error, eligible func(model.ServicePortName) bool) bool {
	quarantined := false
	for _, offender := range err.Offenders() {
		if eligible(offender.Service) {
			quarantined = true
			l.quarantinePort(offender)
		}
	}
	return quarantined
}

// quarantinePort puts the Service port that an error names into quarantine.
func (l *Loop) quarantinePort(offender *wire.Error) {
	log, level := l.log, slog.LevelDebug
	if l.quarantine.addPort(offender) {
		log = l.report.Notify(l.report.service(offender.Service.ServiceName), model.ProblemRefused, offender.Error())
		level = slog.LevelError
	}
	log.Log(context.Background(), level, "quarantined Service port", "service", offender.Service.String(), "err",
		offender)
}

// The first wait before a failed operation is retried, and the longest before a quarantined
// one is. A failed sync is retried after at most Config.SyncPeriod.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// newBackoff returns waits that double from minBackoff up to longest; zero means
// maxBackoff.
func newBackoff(longest time.Duration) wait.Backoff {
	return NewBackoff(minBackoff, cmp.Or(longest, maxBackoff), 0.1)
}

// NewBackoff returns waits that double from first up to longest. Each is longer by up to jitter of it.
func NewBackoff(first, longest time.Duration, jitter float64) wait.Backoff {
	return wait.Backoff{Duration: first, Factor: 2, Jitter: jitter, Steps: 1 << 10, Cap: longest}
}

// stoppedTimer returns a timer that does not run.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(maxBackoff)
	t.Stop()
	return t
}
