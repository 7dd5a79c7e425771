package takeover

import "context"

// phase is what a [Takeover] does until a signal, which moves it to the next phase as steps
// defines. What else it remembers is the same in all phases.
type phase uint8

const (
	phaseStarting    phase = iota // waits for the first sync; nothing is suspended yet
	phaseResuming                 // waits, too; an earlier process has begun the probation
	phaseCommitted                // waits, too; the loop's first batch is in effect
	phaseLooking                  // looks for another proxy
	phaseOther                    // another proxy runs
	phaseOtherEnding              // it was not found once, and may only be restarting
	phaseSuspending
	phaseProbation
	phaseRemoving
	phaseDone
	phaseReturned // to kube-proxy
	phaseIdle     // has a name of its own, and takes over nothing
)

type signal uint8

const (
	signalNone      signal = iota // ctx has ended
	signalCommitted               // the loop's first batch is in effect
	signalReady                   // the first sync is done
	signalOther                   // another proxy runs
	signalAlone                   // no other proxy runs
	signalSuspended               // kube-proxy's rules are suspended
	signalNothing                 // no probation: there are no rules, or their removal has begun
	signalPassed                  // the probation has ended
	signalRemoved                 // kube-proxy's rules are removed
	signalRetry                   // something could not be read or written
	signalFailed                  // the node must be returned
)

var steps = map[phase]struct {
	do   func(*Takeover, context.Context, Proxy) (signal, error) // the error is the reason of signalFailed
	next map[signal]phase
}{
	phaseStarting: {(*Takeover).awaitSync, map[signal]phase{
		signalCommitted: phaseCommitted, signalReady: phaseLooking,
	}},
	phaseResuming: {(*Takeover).awaitSync, map[signal]phase{
		signalCommitted: phaseCommitted, signalReady: phaseLooking, signalFailed: phaseReturned,
	}},
	phaseCommitted:   {(*Takeover).awaitSync, map[signal]phase{signalReady: phaseLooking}},
	phaseLooking:     {(*Takeover).look, map[signal]phase{signalOther: phaseOther, signalAlone: phaseSuspending}},
	phaseOther:       {(*Takeover).lookAgain, map[signal]phase{signalAlone: phaseOtherEnding}},
	phaseOtherEnding: {(*Takeover).lookAgain, map[signal]phase{signalOther: phaseOther, signalAlone: phaseSuspending}},
	phaseSuspending: {(*Takeover).suspend, map[signal]phase{
		signalSuspended: phaseProbation, signalNothing: phaseRemoving, signalRetry: phaseLooking,
	}},
	phaseProbation: {(*Takeover).check, map[signal]phase{
		signalOther: phaseOther, signalPassed: phaseRemoving, signalRetry: phaseLooking, signalFailed: phaseReturned,
	}},
	phaseRemoving: {(*Takeover).remove, map[signal]phase{
		signalOther: phaseOther, signalRemoved: phaseDone, signalRetry: phaseLooking,
	}},
	phaseDone: {(*Takeover).watch, map[signal]phase{signalOther: phaseOther}},
	phaseIdle: {(*Takeover).idle, nil},
}

func (*Takeover) idle(ctx context.Context, _ Proxy) (signal, error) {
	<-ctx.Done()
	return signalNone, nil
}

// on returns the phase after a signal. A signal without a transition changes nothing.
func (p phase) on(s signal) phase {
	if next, ok := steps[p].next[s]; ok {
		return next
	}
	return p
}
