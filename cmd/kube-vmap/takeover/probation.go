package takeover

import (
	"context"
	"fmt"
	"net/netip"
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
	// checkTimeout limits a check.
	checkTimeout = 30 * time.Second
	// readShare is how long a view is used, as a multiple of the time that it took to read,
	// so that reading takes a hundredth of a processor; it is used for maxReadPeriod at most.
	readShare     = 100
	maxReadPeriod = time.Minute
)

// A FailedError is the reason why the node must be returned to kube-proxy, or why an earlier
// process returned it.
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
		sleep(ctx, pollPeriod)
		return outcomeOther, nil
	case !needed:
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

// A view is what checks need to know of the node. To read it takes longer in a larger cluster.
type view struct {
	rules   rules
	refused string // why the kernel refuses too much; empty if it does not
	// endpoints are those of the sample, as the kernel has them.
	endpoints map[netip.AddrPort][]netip.AddrPort
}

// read reads a view. While changes do not reach the kernel, only kube-proxy's rules are in it:
// the loop may not answer.
func (t *Takeover) read(ctx context.Context, p Proxy) (v view, err error) {
	if v.rules, err = t.system.find(ctx); err != nil || !p.Healthy() {
		return v, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	s, err := p.Snapshot(ctx)
	if err != nil {
		return v, fmt.Errorf("read what is programmed: %w", err)
	}
	v.refused, v.endpoints = tooManyRefused(s), t.sampleEndpoints(s.Installed)
	return v, nil
}

// check checks until the end of the probation and a check that is good. first are
// kube-proxy's rules at its beginning. A view is used for some checks if it took long to
// read, but not for the last one, and not after one that failed.
func (t *Takeover) check(ctx context.Context, p Proxy, first rules) (outcome, error) {
	var v view
	var nextRead time.Time
	for failures := 0; sleep(ctx, pollPeriod); {
		if t.findOther() {
			return outcomeOther, nil
		}
		now := time.Now()
		last := !now.Before(t.until)
		if failures > 0 || last || !now.Before(nextRead) {
			var err error
			if v, err = t.read(ctx, p); err != nil {
				t.Log.Warn("cannot check the node, retrying", "retry_in", pollPeriod.String(), "err", err)
				nextRead = time.Time{}
				continue
			}
			nextRead = time.Now().Add(min(readShare*time.Since(now), maxReadPeriod))
			if r := v.rules; !r.isEmpty() && (len(r.awake()) > 0 || r.nft.Content != first.nft.Content) {
				t.leave(ctx)
				return outcomeOther, nil
			}
		}
		why := t.whyFailing(ctx, p, v)
		switch {
		case why != "":
			failures++
			t.Log.Warn("check of the probation failed", "reason", why, "failures", failures)
		case last:
			t.Log.Info("probation ended, kube-vmap stays")
			return outcomePassed, nil
		default:
			failures = 0
		}
		if failures == maxFailures {
			return outcomePassed, t.failure(v.rules, first, why)
		}
	}
	return outcomePassed, nil
}

// failure returns why the node must be returned; nil if there is nothing to return it to.
func (t *Takeover) failure(now, first rules, why string) error {
	if !now.serve() || now.families() != first.families() {
		t.Log.Error("cannot return the node: kube-proxy's rules do not exist any more, in all families")
		return nil
	}
	return &FailedError{Reason: why}
}

// whyFailing makes one check and returns why it failed; empty if it did not.
func (t *Takeover) whyFailing(ctx context.Context, p Proxy, v view) string {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	switch {
	case !p.Healthy():
		return "changes do not reach the kernel"
	case v.refused != "":
		return v.refused
	}
	failed := t.failing(ctx, v.endpoints)
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
