package takeover

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"kube-vmap/nft"
	"kube-vmap/nft/foreign/kubeproxy"
)

type storedState struct {
	until    time.Time // of the probation; zero if there is none
	starts   int       // in a row in the probation that have not reached the first sync
	returned string    // when and why the node was returned; empty if it was not
	removing bool      // the removal of kube-proxy's rules has begun, so rollback is not possible
}

const (
	probationPrefix = "probation until="
	startsPrefix    = " starts="
	returnedPrefix  = kubeproxy.StateReturned + " at="
	removalText     = "removing kube-proxy's rules"
)

// parseState parses a stored state. One that it cannot parse, perhaps of a later version,
// counts as a probation that has ended: kube-proxy's rules may be suspended.
func parseState(text string) storedState {
	if text == "" {
		return storedState{}
	}
	if rest, ok := strings.CutPrefix(text, returnedPrefix); ok {
		return storedState{returned: rest}
	}
	if text == removalText {
		return storedState{removing: true}
	}
	end, count, _ := strings.Cut(strings.TrimPrefix(text, probationPrefix), startsPrefix)
	until, err := time.Parse(time.RFC3339, end)
	if err != nil {
		return storedState{until: time.Unix(0, 0)}
	}
	starts, err := strconv.Atoi(count)
	if err != nil || starts < 0 || starts > maxStarts {
		starts = 0 // none is stored, or not by this version
	}
	return storedState{until: until, starts: starts}
}

func (s storedState) store() nft.Batch {
	switch {
	case s.returned != "":
		return kubeproxy.WriteTakeoverState(returnedPrefix + s.returned)
	case s.removing:
		return kubeproxy.WriteTakeoverState(removalText)
	}
	text := probationPrefix + formatTime(s.until)
	if s.starts > 0 {
		text += startsPrefix + strconv.Itoa(s.starts)
	}
	return kubeproxy.WriteTakeoverState(text)
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// minRemaining is how long a probation lasts at least after a restart: a process that
// crashes again and again does not end it between two crashes.
const minRemaining = time.Minute

// remaining returns how long a stored probation still lasts, at most the configured time:
// the clock may have jumped.
func remaining(until, now time.Time, configured time.Duration) time.Duration {
	return min(max(until.Sub(now), minRemaining), configured)
}

// Returned returns when and why an earlier process has returned this node to kube-proxy;
// empty if none has.
func Returned() (string, error) {
	text, err := kubeproxy.ReadTakeoverState(0)
	return parseState(text).returned, err
}

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
	r, err := t.system.find()
	if err != nil {
		t.Log.Warn("cannot read kube-proxy's rules", "err", err)
		return nil
	}
	_, err = t.fail(r, r, &FailedError{Reason: fmt.Sprintf("kube-vmap ended %d times before its first sync", maxStarts)})
	return err
}

// Stopped takes back that this start was counted, if it has not reached its first sync. Call it
// after Run if the process was asked to end and is healthy.
func (t *Takeover) Stopped() {
	if t.stored.starts > 0 {
		t.storeStarts(t.stored.starts - 1)
	}
}

// storeStarts stores a number of starts. An error is no reason to end the proxy.
func (t *Takeover) storeStarts(n int) {
	t.stored.starts = n
	if err := t.system.store(t.stored); err != nil {
		t.Log.Warn("cannot store the number of starts before the first sync", "err", err)
	}
}

// Start reads the state that an earlier process has stored. It returns a [FailedError] if that
// has returned the node, or if too many have ended before their first sync. Call it before
// anything is changed.
func (t *Takeover) Start() error {
	s, err := t.system.readState()
	switch {
	case err != nil:
		return err
	case s.returned != "":
		return &FailedError{Reason: s.returned, Returned: true}
	case s.until.IsZero() || t.Probation == 0:
		t.stored.removing = s.removing
		return nil
	}
	now := time.Now()
	t.phase, t.stored.until = phaseResuming, now.Add(remaining(s.until, now, t.Probation))
	return t.countStart(s.starts)
}
