package takeover

import (
	"context"
	"strings"
	"time"

	"kube-vmap/sync"
)

const (
	// maxFailures is how many checks in a row must fail to end the probation.
	maxFailures = 3
	// readyTimeout is how long a restarted process may take to program what its source
	// returned. Without an answer of its source it waits: the rules in the kernel are newer
	// than kube-proxy's.
	readyTimeout = 2 * time.Minute
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

// awaitReady waits for the first sync. It may fail only if an earlier process has begun the
// probation; otherwise nothing has been suspended yet.
func (t *Takeover) awaitReady(ctx context.Context, p Proxy) error {
	deadline, failures := time.Now().Add(readyTimeout), 0
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.Ready:
			return nil
		case <-tick.C:
		}
		if failures++; p.Healthy() || time.Now().Before(deadline) {
			failures = 0
		}
		if t.resumed && failures >= maxFailures {
			return &FailedError{Reason: "after a restart, changes do not reach the kernel"}
		}
	}
}

// probation suspends kube-proxy's rules, if that is not done yet, and checks until its end. It
// reports whether it was passed, also if there was nothing to try; otherwise another proxy runs, or
// something must be tried again.
func (t *Takeover) probation(ctx context.Context, p Proxy) (passed bool, failed error) {
	r, err := t.system.find()
	if err == nil && len(r.awake()) > 0 {
		t.removing = false // a kube-proxy has run since
	}
	needed := err == nil && t.Probation > 0 && !t.removing && !r.isEmpty()
	if needed {
		err = t.begin(ctx, p, r)
	}
	switch {
	case err != nil:
		t.Log.Error("cannot suspend kube-proxy's rules, retrying", "retry_in", pollPeriod.String(), "err", err)
		sync.Sleep(ctx, pollPeriod)
		return false, nil
	case !needed:
		return true, nil
	}
	t.publish(StateProbation, "", "kube-proxy's rules are suspended until "+t.until.UTC().Format(time.RFC3339)+
		"; if kube-vmap does not work here before that, they are resumed")
	if v, err := t.read(ctx, p); err == nil && v.lost != "" { // check retries an error
		return true, t.failure(v.rules, r, v.lost)
	}
	return t.check(ctx, p, r)
}

// begin makes sure that rules are suspended and that there is a sample.
func (t *Takeover) begin(ctx context.Context, p Proxy, r rules) error {
	if len(t.sample) == 0 {
		if v, err := p.Snapshot(ctx); err == nil {
			t.setSample(t.working(ctx, installedTargets(v.Installed)))
		}
	}
	now, awake := time.Now(), r.awake()
	if t.until.IsZero() || len(awake) > 0 && len(r.suspended()) == 0 { // zero: suspended by others
		t.until = now.Add(t.Probation)
	}
	t.until = now.Add(remaining(t.until, now, t.Probation)) // it may have passed beside another proxy
	if len(awake) == 0 {
		return nil
	}
	if err := t.system.suspend(r, t.until); err != nil {
		return err
	}
	t.logSuspended(awake)
	return nil
}

func (t *Takeover) logSuspended(rules []string) {
	t.Log.Info("suspended kube-proxy's rules", "rules", strings.Join(rules, ", "),
		"until", t.until.UTC().Format(time.RFC3339), "sample", len(t.sample))
}

// leave leaves kube-proxy's rules to a kube-proxy that has shown itself by writing to them.
func (t *Takeover) leave() {
	if err := t.system.resume(); err != nil {
		t.Log.Error("cannot resume the rules of the other proxy", "err", err)
	}
	t.until, t.resumed = time.Time{}, false
	t.awakeUntil = time.Now().Add(awakePeriod)
	t.findOther()
}
