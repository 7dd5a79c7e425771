package takeover

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

const (
	// checkTimeout limits a check.
	checkTimeout = 30 * time.Second
	// readShare is how long a view is used, as a multiple of the time that it took to read,
	// so that reading takes a hundredth of a processor; it is used for maxReadPeriod at most.
	readShare     = 100
	maxReadPeriod = time.Minute
)

// A view is what checks need to know of the node. To read it takes longer in a larger cluster.
type view struct {
	rules   rules
	refused string // why the kernel refuses too much; empty if it does not
	// endpoints are those of the sample, as the kernel has them.
	endpoints map[netip.AddrPort][]netip.AddrPort
	changes   map[netip.Addr]int // of the sample, before that
}

// read reads a view. While changes do not reach the kernel, only kube-proxy's rules are in it:
// the loop may not answer.
func (t *Takeover) read(ctx context.Context, p Proxy) (v view, err error) {
	if v.rules, err = t.system.find(); err != nil || !p.Healthy() {
		return v, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	v.changes = t.changes.read()
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
func (t *Takeover) check(ctx context.Context, p Proxy, first rules) (passed bool, failed error) {
	var v view
	var nextRead time.Time
	for failures := 0; sync.Sleep(ctx, pollPeriod); {
		if t.findOther() {
			return false, nil
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
				t.leave()
				return false, nil
			}
		}
		why := t.whyFailing(ctx, p, v)
		switch {
		case why != "":
			failures++
			t.Log.Warn("check of the probation failed", "reason", why, "failures", failures)
		case last:
			t.Log.Info("probation ended, kube-vmap stays")
			return true, nil
		default:
			failures = 0
		}
		if failures == maxFailures {
			return true, t.failure(v.rules, first, why)
		}
	}
	return true, nil
}

// failure returns why the node must be returned; nil if there is nothing to return it to.
func (t *Takeover) failure(now, first rules, why string) error {
	if !now.serve() || now.families() != first.families() {
		t.Log.Error("cannot return the node: kube-proxy's rules do not exist any more, in all families")
		return nil
	}
	return &FailedError{Reason: why, failed: t.failed}
}

// whyFailing makes one check and returns why it failed; empty if it did not.
func (t *Takeover) whyFailing(ctx context.Context, p Proxy, v view) string {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	t.failed = nil
	switch {
	case !p.Healthy():
		return "changes do not reach the kernel"
	case v.refused != "":
		return v.refused
	}
	failed := t.failing(ctx, v.endpoints)
	now := t.changes.read()
	failed = slices.DeleteFunc(failed, func(f failure) bool { return now[f.at.Addr()] != v.changes[f.at.Addr()] })
	if !decisive(failed, t.sample) {
		return ""
	}
	t.failed = failed
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
		if p.Reason == model.ProblemRefused {
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
