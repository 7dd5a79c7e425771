package takeover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

const (
	// maxFailures is how many checks in a row must fail to end the probation.
	maxFailures = 3
	// readyTimeout is how long a restarted process may take to program what its source
	// returned. Without an answer of its source it waits: the rules in the kernel are newer
	// than kube-proxy's.
	readyTimeout = 2 * time.Minute
	// readShare is how long a view is used, as a multiple of the time that it took to read,
	// so reading takes a hundredth of a processor; it is used for maxReadPeriod at most.
	readShare     = 100
	maxReadPeriod = time.Minute
)

// A FailedError is the reason why the node must be returned to kube-proxy, or why an earlier
// process returned it.
type FailedError struct {
	Reason   string
	Returned bool
	// Now is what the addresses that failed do after the return; empty if there are none.
	Now    string
	failed []failure
}

func (f *FailedError) Error() string {
	if f.Returned {
		return "this node was returned to kube-proxy at " + f.Reason
	}
	text := "take-over failed, node returned to kube-proxy: " + f.Reason
	if f.Now != "" {
		text += "; " + f.Now
	}
	return text
}

// awaitSync waits for the first sync. It can only fail in phaseResuming: before it nothing has been
// suspended, and after it changes have reached the kernel.
func (t *Takeover) awaitSync(ctx context.Context, p Proxy) (signal, error) {
	deadline, failures := time.Now().Add(readyTimeout), 0
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for failures < maxFailures {
		select {
		case <-ctx.Done():
			return signalNone, nil
		case <-p.Ready:
			return signalReady, nil
		case <-tick.C:
		}
		if failures++; p.Healthy() || time.Now().Before(deadline) {
			failures = 0
		}
	}
	return signalFailed, &FailedError{Reason: "after a restart, changes do not reach the kernel"}
}

// suspend makes sure that rules are suspended and that there is a sample, unless no probation is
// needed.
func (t *Takeover) suspend(ctx context.Context, p Proxy) (signal, error) {
	r, err := t.system.find()
	if err != nil {
		return t.retry(ctx, pollPeriod, err)
	}
	awake := len(r.nft.Awake()) > 0
	t.stored.removing = t.stored.removing && !awake // otherwise a kube-proxy has run since
	if t.Probation == 0 || t.stored.removing || len(r.nft.Parts) == 0 {
		return signalNothing, nil
	}
	if len(t.sample) == 0 {
		if v, err := p.Snapshot(ctx); err == nil {
			t.sample = t.working(ctx, installedTargets(v.Installed))
		}
	}
	t.setEnd(r)
	if awake {
		if err := t.system.suspend(r, t.stored); err != nil {
			return t.retry(ctx, pollPeriod, fmt.Errorf("suspend kube-proxy's rules: %w", err))
		}
		t.logSuspended(r)
	}
	return signalSuspended, nil
}

// setEnd sets the end of the probation before these rules are suspended.
func (t *Takeover) setEnd(r rules) {
	now := time.Now()
	if t.stored.until.IsZero() || len(r.nft.Awake()) > 0 && len(r.nft.Suspended()) == 0 { // zero: suspended by others
		t.stored.until = now.Add(t.Probation)
	}
	t.stored.until = now.Add(remaining(t.stored.until, now, t.Probation)) // it may have passed while another proxy ran
}

func (t *Takeover) logSuspended(r rules) {
	t.Log.Info("suspended kube-proxy's rules", "rules", strings.Join(names(r.nft.Awake()), ", "),
		"until", formatTime(t.stored.until), "sample", len(t.sample))
}

// check checks until the end of the probation and a check that is good. A view is used for some
// checks if it took long to read, but not for the last one, and not after one that failed.
func (t *Takeover) check(ctx context.Context, p Proxy) (signal, error) {
	t.publish(nodestatus.TakeoverProbation, "", "kube-proxy's rules are suspended until "+
		formatTime(t.stored.until)+"; if kube-vmap does not work here before that, they are resumed")
	v, err := t.read(ctx, p)
	first := v.rules
	switch {
	case first.nft == nil:
		return t.retry(ctx, pollPeriod, err)
	case v.lost != "":
		return t.fail(v.rules, first, &FailedError{Reason: v.lost})
	}
	var nextRead time.Time
	for failures := 0; sync.Sleep(ctx, pollPeriod); {
		if t.findOther() {
			return signalOther, nil
		}
		now := time.Now()
		last := !now.Before(t.stored.until)
		if failures > 0 || last || !now.Before(nextRead) {
			if v, err = t.read(ctx, p); err != nil {
				t.Log.Warn("cannot check the node, retrying", "retry_in", pollPeriod.String(), "err", err)
				nextRead = time.Time{}
				continue
			}
			nextRead = time.Now().Add(min(readShare*time.Since(now), maxReadPeriod))
			if r := v.rules; len(r.nft.Parts) > 0 && (len(r.nft.Awake()) > 0 || r.nft.Content != first.nft.Content) {
				t.leave()
				return signalOther, nil
			}
		}
		failure := t.whyFailing(ctx, p, v)
		switch {
		case failure != nil:
			failures++
			t.Log.Warn("check of the probation failed", "reason", failure.Reason, "failures", failures)
		case last:
			t.Log.Info("probation ended, kube-vmap stays")
			return signalPassed, nil
		default:
			failures = 0
		}
		if failures == maxFailures {
			return t.fail(v.rules, first, failure)
		}
	}
	return signalNone, nil
}

// fail ends the probation: the node must be returned, unless there is nothing to return it to.
func (t *Takeover) fail(now, first rules, failure *FailedError) (signal, error) {
	if !now.serve() || now.families() != first.families() {
		t.Log.Error("cannot return the node: kube-proxy's rules no longer exist, in all families")
		return signalPassed, nil
	}
	return signalFailed, failure
}

// leave leaves kube-proxy's rules to a kube-proxy that has shown itself by writing to them.
func (t *Takeover) leave() {
	if err := t.system.resume(); err != nil {
		t.Log.Error("cannot resume the rules of the other proxy", "err", err)
	}
	t.stored = storedState{}
	t.awakeUntil = time.Now().Add(awakePeriod)
	t.findOther()
}

func suspension(r rules, s storedState) nft.Batch { return slices.Concat(r.nft.Suspend(), s.store()) }
