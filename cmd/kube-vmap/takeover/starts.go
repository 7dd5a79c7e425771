package takeover

import (
	"fmt"
)

// maxStarts is how many starts in a row may end before the first sync during a probation. The
// next one returns the node, because our rules are in effect but not updated. A process that
// waits for its source does not end, so it is counted once.
const maxStarts = 5

// countStart counts this start until its first sync. It returns a [FailedError] if maxStarts
// before it did not reach theirs and kube-proxy's rules exist.
func (t *Takeover) countStart(before int) error {
	if before < maxStarts {
		t.storeStarts(before + 1)
		return nil
	}
	t.storeStarts(1) // if the node cannot be returned, the next starts try again to sync
	switch r, err := t.system.find(); {
	case err != nil:
		t.Log.Warn("cannot read kube-proxy's rules", "err", err)
		return nil
	case !r.serve():
		t.Log.Error("cannot return the node: kube-proxy's rules do not exist any more")
		return nil
	}
	return &FailedError{Reason: fmt.Sprintf("kube-vmap ended %d times before its first sync", maxStarts)}
}

// Stopped takes back that this start was counted, if it has not reached its first sync. Call it
// after Run if the process was asked to end and is healthy.
func (t *Takeover) Stopped() {
	if t.starts > 0 {
		t.storeStarts(t.starts - 1)
	}
}

// storeStarts stores a number of starts. An error is no reason to end the proxy.
func (t *Takeover) storeStarts(n int) {
	t.starts = n
	if err := t.system.storeStarts(t.until, n); err != nil {
		t.Log.Warn("cannot store the number of starts before the first sync", "err", err)
	}
}
