package passivehealth

import (
	"runtime"
	"time"

	"kube-vmap/nft/kernel/conntrack"
)

// readCounter learns whether first packets were sent again.
func (t *Tracker) readCounter() {
	total, err := t.Counter.Unanswered()
	if err != nil {
		return // connection tracking is read rarely, and the loop cares for the table
	}
	t.moved = t.moved || total != t.counter
	t.counter = total
}

// readIsDue reports whether to read the connections without an answer.
func (t *Tracker) readIsDue(now time.Time) bool {
	since := now.Sub(t.lastRead)
	if t.moved || t.checks.any(phaseAsking) {
		return since >= answerTime && t.readBudget.TokensAt(now) >= 1
	}
	return since >= max(answerTime, idleFactor*t.readCost)
}

// readUnanswered reads the connections without an answer, if that is due.
func (t *Tracker) readUnanswered(now time.Time) {
	if !t.readIsDue(now) {
		return
	}
	t.moved, t.lastRead = false, now
	runtime.LockOSThread() // for its processor time
	defer runtime.UnlockOSThread()
	unanswered, before := map[endpoint][]uint32{}, t.CPUTime()
	err := t.Tracking.EachUnanswered(func() { clear(unanswered) }, func(e conntrack.Entry) {
		k := endpoint{e.Protocol, e.Reply}
		unanswered[k] = append(unanswered[k], e.ID)
	})
	t.logOutcome(err)
	if err == nil && (len(unanswered) > 0 || len(t.checks.all) > 0) {
		t.checks.observe(now, unanswered, having(t.pools, unanswered))
	}
	t.readCost = t.CPUTime() - before
	t.readBudget.ReserveN(now, min(int(t.readCost.Microseconds()), t.readBudget.Burst()))
}

// logOutcome logs when reads start to fail or to succeed again.
func (t *Tracker) logOutcome(err error) {
	switch {
	case err != nil && !t.failing:
		t.Log.Warn("connections without an answer not read, passive health checks wait", "err", err)
	case err == nil && t.failing:
		t.Log.Info("connections without an answer read again")
	}
	t.failing = err != nil
}

// readAnswered returns the numbers of the endpoint's connections that have an answer; nil if
// they cannot be read.
func (t *Tracker) readAnswered(of endpoint) map[uint32]struct{} {
	ids := map[uint32]struct{}{}
	err := t.Tracking.EachAnsweredBy(of.addr.Addr(), func() { clear(ids) }, func(e conntrack.Entry) {
		if (endpoint{e.Protocol, e.Reply}) == of {
			ids[e.ID] = struct{}{}
		}
	})
	if err != nil {
		t.logOutcome(err)
		return nil
	}
	return ids
}
