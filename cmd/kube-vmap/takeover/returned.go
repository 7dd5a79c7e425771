package takeover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/sync"
)

// errAgain ends the process so that the next one tries again.
var errAgain = errors.New("the mark of the failed take-over was removed: starting again takes over")

// AskAgain returns whether the addresses that failed answer through kube-proxy's rules, after
// [Return]. If one does not, no rule of ours is the reason: kube-proxy has the same fault. It is
// empty if no address failed, or ctx has ended.
func (t *Takeover) AskAgain(ctx context.Context, f *FailedError) string {
	if len(f.failed) == 0 {
		return ""
	}
	var all []target
	for _, f := range f.failed {
		all = append(all, f.target)
	}
	still := failures(ctx, all, func(s target) error {
		return repeated(func() error { return t.dial(ctx, s.at) })
	})
	switch {
	case ctx.Err() != nil:
		return ""
	case len(still) == 0:
		return "through kube-proxy's rules they answer now"
	}
	first := still[0]
	return fmt.Sprintf("%s at %s does not answer through kube-proxy's rules either (%v): kube-vmap explain shows why",
		first.service, first.at, first.err)
}

// Stay reports that the node was returned, and what kube-proxy does, until ctx ends. It calls yield
// when kube-proxy seems to run, which wants our ports. The error is that "kube-vmap cleanup" has
// allowed another attempt. Call it after Run or Start has returned the failure.
func (t *Takeover) Stay(ctx context.Context, failure *FailedError, yield func()) error {
	t.stored = storedState{returned: failure.Reason} // Stopped keeps it
	var before rules
	for ctx.Err() == nil {
		if s, err := t.system.readState(); err == nil && s.returned == "" {
			return errAgain
		}
		start := time.Now()
		now, err := t.system.find()
		if err == nil && before.nft != nil && before.nft.Content != now.nft.Content {
			t.awakeUntil = time.Now().Add(awakePeriod)
		}
		why, otherErr := t.running()
		text := failure.Error() + "; " + whatKubeProxyDoes(now, why, err, otherErr) +
			`. "kube-vmap cleanup" allows another attempt`
		if t.publish(nodestatus.TakeoverReturned, "this node was returned to kube-proxy", text) {
			t.Log.Warn("kube-vmap does nothing on this node", "reason", text)
		}
		if why != "" {
			yield()
		}
		if err == nil {
			before = now
		}
		sync.Sleep(ctx, max(pollPeriod, min(readShare*time.Since(start), maxReadPeriod)))
	}
	return nil
}

// whatKubeProxyDoes returns that, by its rules, and why it seems to run; empty if it does not.
func whatKubeProxyDoes(r rules, running string, err, otherErr error) string {
	switch {
	case err != nil:
		return "kube-proxy's rules cannot be read: " + err.Error()
	case !r.serve():
		return "kube-proxy has no rules here, so that Services do not work"
	case running != "":
		return "kube-proxy's rules are in effect, and it seems to run: " + running
	case otherErr != nil:
		return "kube-proxy's rules are in effect; cannot read whether it runs: " + otherErr.Error()
	}
	return "kube-proxy's rules are in effect, and follow no changes until it runs"
}
