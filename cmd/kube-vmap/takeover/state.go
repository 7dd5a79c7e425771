package takeover

import (
	"fmt"
	"strings"
	"time"

	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kubeproxy"
)

// storedState is the state in the kernel.
type storedState struct {
	until    time.Time // of the probation; zero if there is none
	returned string    // when and why the node was returned; empty if it was not
	removing bool      // the removal of kube-proxy's rules has begun, so that nothing can be returned
}

const (
	probationPrefix = "probation until="
	returnedPrefix  = "returned at="
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
	until, err := time.Parse(time.RFC3339, strings.TrimPrefix(text, probationPrefix))
	if err != nil {
		until = time.Unix(0, 0)
	}
	return storedState{until: until}
}

// storeProbation returns the changes that store a probation.
func storeProbation(until time.Time) nft.Batch {
	return kubeproxy.WriteTakeoverState(probationPrefix + until.UTC().Format(time.RFC3339))
}

// storeReturned returns the changes that store that the node was returned.
func storeReturned(at time.Time, reason string) nft.Batch {
	return kubeproxy.WriteTakeoverState(fmt.Sprintf("%s%s reason=%s", returnedPrefix, at.UTC().Format(time.RFC3339), reason))
}

// storeRemoval returns the changes that store that the removal has begun.
func storeRemoval() nft.Batch { return kubeproxy.WriteTakeoverState(removalText) }

// minRemaining is how long a probation lasts at least after a restart, so that a process which
// crashes again and again does not end it between two crashes.
const minRemaining = time.Minute

// remaining returns how long a stored probation still lasts, at most the configured time:
// the clock may have jumped.
func remaining(until, now time.Time, configured time.Duration) time.Duration {
	return min(max(until.Sub(now), minRemaining), configured)
}
