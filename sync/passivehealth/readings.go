package passivehealth

import (
	"net/netip"
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

// readIsDue reports whether to read the connections without an answer. Unless a decision is on its
// way, the budget keeps what one costs: clients that go on sending to an unresponsive endpoint, so
// that the counter moves all the time, would use up all of it.
func (t *Tracker) readIsDue(now time.Time) bool {
	since, budget := now.Sub(t.lastRead), t.readBudget.TokensAt(now)
	switch {
	case since < answerTime:
		return false
	case t.checks.needReading(now, t.moved):
		return budget >= 1
	case t.moved && budget >= t.decisionCost()+float64(t.readCost.Microseconds()):
		return true
	}
	return since >= idleFactor*t.readCost
}

// decisionCost returns what it costs to find that an endpoint does not answer: connections without
// an answer and those with one are read twice each, and may cost what they did the last time.
func (t *Tracker) decisionCost() float64 {
	cost := 2 * (t.readCost + t.answeredCost)
	return float64(min(cost.Microseconds(), readBurst-t.readCost.Microseconds()))
}

// readUnanswered reads the connections without an answer, if that is due.
func (t *Tracker) readUnanswered(now time.Time) {
	if !t.readIsDue(now) {
		return
	}
	t.moved, t.lastRead = false, now
	unanswered := map[endpoint][]uint32{}
	t.readCost = t.read(now, func() error {
		err := t.Tracking.EachUnanswered(func() { clear(unanswered) }, func(e conntrack.Entry) {
			k := endpoint{e.Protocol, e.Reply}
			unanswered[k] = append(unanswered[k], e.ID)
		})
		if err == nil && (len(unanswered) > 0 || len(t.checks.all) > 0) {
			t.checks.observe(now, unanswered, having(t.pools, unanswered))
		}
		return err
	})
}

// read calls what reads connection tracking, takes its processor time from the budget and returns
// that. It logs when reads start to fail or to succeed again.
func (t *Tracker) read(now time.Time, fn func() error) (cost time.Duration) {
	runtime.LockOSThread() // for its processor time
	defer runtime.UnlockOSThread()
	before := t.cpuTime()
	err := fn()
	cost = t.cpuTime() - before
	t.readBudget.ReserveN(now, min(int(cost.Microseconds()), t.readBudget.Burst()))
	switch {
	case err != nil && !t.failing:
		t.Log.Warn("connections without an answer not read, passive health checks wait", "err", err)
	case err == nil && t.failing:
		t.Log.Info("connections without an answer read again")
	}
	t.failing = err != nil
	return cost
}

// readAnswered returns the numbers of the connections that these checks' endpoints have answered,
// from one walk, which serves all that wait for one; nothing if that failed or is not due.
func (t *Tracker) readAnswered(now time.Time, of []*check) map[endpoint]map[uint32]struct{} {
	if len(of) == 0 || now.Sub(t.lastRound) < secondQuestion || t.readBudget.TokensAt(now) < 1 {
		return nil
	}
	t.lastRound = now
	by, answered := of[0].addr.Addr(), map[endpoint]map[uint32]struct{}{}
	for _, c := range of {
		answered[c.endpoint] = map[uint32]struct{}{}
		if c.addr.Addr() != by {
			by = netip.Addr{} // the kernel filters by one address
		}
	}
	failed := false
	t.answeredCost = t.read(now, func() error {
		err := t.Tracking.EachAnswered(by, func() {
			for _, ids := range answered {
				clear(ids)
			}
		}, func(e conntrack.Entry) {
			if ids := answered[endpoint{e.Protocol, e.Reply}]; ids != nil {
				ids[e.ID] = struct{}{}
			}
		})
		failed = err != nil
		return err
	})
	if failed {
		return nil
	}
	return answered
}
