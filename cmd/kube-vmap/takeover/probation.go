package takeover

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kube-vmap/sync"
)

const (
	// maxFailures is how many checks in a row must fail to end the probation.
	maxFailures = 3
	// readyTimeout is how long a restarted process may take, after it has everything from
	// its source, to program it. Without its source it waits: the rules that the kernel
	// has are newer than kube-proxy's.
	readyTimeout = 2 * time.Minute
	// checkTimeout limits a check.
	checkTimeout = 30 * time.Second
)

// A FailedError is why the node must be returned to kube-proxy, or was by an earlier process.
type FailedError struct {
	Reason   string
	Returned bool
}

func (f *FailedError) Error() string {
	if f.Returned {
		return "this node was returned to kube-proxy at " + f.Reason + `; "kube-vmap cleanup" allows another attempt`
	}
	return "take-over failed, node returned to kube-proxy: " + f.Reason
}

// An outcome is how a probation ended that did not fail.
type outcome int

const (
	outcomePassed outcome = iota // also if there is nothing to try
	outcomeOther                 // another proxy runs, or something must be tried again
)

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

// probation suspends kube-proxy's rules, if that is not done yet, and checks until its end.
func (t *Takeover) probation(ctx context.Context, p Proxy) (outcome, error) {
	r, err := t.system.find(ctx)
	if err == nil && t.Probation > 0 && !r.isEmpty() {
		err = t.begin(ctx, p, r)
	}
	switch {
	case err != nil:
		t.Log.Error("cannot suspend kube-proxy's rules, retrying", "retry_in", pollPeriod.String(), "err", err)
		sleep(ctx, pollPeriod)
		return outcomeOther, nil
	case t.Probation == 0 || r.isEmpty():
		return outcomePassed, nil
	}
	t.publish(StateProbation, "kube-proxy's rules are suspended until "+t.until.UTC().Format(time.RFC3339)+
		"; if kube-vmap does not work here before that, they are resumed")
	return t.check(ctx, p, r)
}

// begin makes sure that rules are suspended and that there is a sample.
func (t *Takeover) begin(ctx context.Context, p Proxy, r rules) error {
	if len(t.sample) == 0 {
		if v, err := p.Snapshot(ctx); err == nil {
			t.sample = t.working(ctx, installedTargets(v.Installed))
		}
	}
	awake := r.awake()
	if len(awake) == 0 {
		if t.until.IsZero() { // suspended by someone else, or the stored state was deleted
			t.until = time.Now().Add(t.Probation)
		}
		return nil
	}
	if len(r.suspended()) == 0 || t.until.IsZero() {
		t.until = time.Now().Add(t.Probation)
	}
	if err := t.system.suspend(ctx, r, t.until); err != nil {
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
func (t *Takeover) leave(ctx context.Context) {
	if err := t.system.resume(ctx); err != nil {
		t.Log.Error("cannot resume the rules of the other proxy", "err", err)
	}
	t.until, t.resumed = time.Time{}, false
	t.awakeUntil = time.Now().Add(awakePeriod)
	t.findOther()
}

// check checks until the end of the probation and a check that is good. first are
// kube-proxy's rules at its beginning.
func (t *Takeover) check(ctx context.Context, p Proxy, first rules) (outcome, error) {
	for failures := 0; sleep(ctx, pollPeriod); {
		if t.findOther() {
			return outcomeOther, nil
		}
		r, err := t.system.find(ctx)
		switch {
		case err != nil:
			t.Log.Warn("cannot read kube-proxy's rules", "err", err)
			continue
		case !r.isEmpty() && (len(r.awake()) > 0 || r.nft.Content != first.nft.Content):
			t.leave(ctx)
			return outcomeOther, nil
		}
		why := t.whyFailing(ctx, p)
		if why == "" {
			failures = 0
			if !time.Now().Before(t.until) {
				t.Log.Info("probation ended, kube-vmap stays")
				return outcomePassed, nil
			}
			continue
		}
		failures++
		t.Log.Warn("check of the probation failed", "reason", why, "failures", failures)
		if failures < maxFailures {
			continue
		}
		if r.families() != first.families() {
			t.Log.Error("cannot return the node: kube-proxy's rules do not exist any more, in all families")
			return outcomePassed, nil
		}
		return outcomePassed, &FailedError{Reason: why}
	}
	return outcomePassed, nil
}

// whyFailing makes one check and returns why it failed; empty if it did not.
func (t *Takeover) whyFailing(ctx context.Context, p Proxy) string {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if !p.Healthy() {
		return "changes do not reach the kernel"
	}
	v, err := p.Snapshot(ctx)
	if err != nil {
		return "" // the loop is busy; if it stays so, changes wait
	}
	if why := tooManyRefused(v); why != "" {
		return why
	}
	failed := t.failing(ctx, v.Installed)
	if !decisive(failed, t.sample) {
		return ""
	}
	text := fmt.Sprintf("%d of %d addresses do not answer that did before: ", len(failed), len(t.sample))
	for i, f := range failed {
		if i == 3 {
			return text + "..."
		}
		text += fmt.Sprintf("%s at %s (%v), ", f.service, f.at, f.err)
	}
	return strings.TrimSuffix(text, ", ")
}

// tooManyRefused returns a reason if the kernel refuses too many Service ports.
func tooManyRefused(v sync.Snapshot) string {
	refused, namespaces, ports := 0, map[string]bool{}, 0
	for _, p := range v.Problems {
		if p.Reason == sync.ReasonRefused {
			refused++
			namespaces[p.Namespace] = true
		}
	}
	for _, s := range v.Services {
		ports += len(s.Ports)
	}
	if !shareIsTooLarge(refused, len(namespaces), ports) {
		return ""
	}
	return fmt.Sprintf("the kernel refuses %d of %d Service ports", refused, ports)
}
