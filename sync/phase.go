package sync

// phase is the state of a [Loop]: what it waits for before the next sync. Signals move it
// from one phase to another as transitions defines; the package comment shows it as a
// diagram.
//
// No phase says whether the kernel's tables are known: Loop.rules is nil at the
// start, and from a failed sync until the next one that succeeds. A sync with rules sends
// the difference between two desired states. A sync without them reads the kernel,
// compares everything and so has rules again.
type phase uint8

const (
	// phaseStarting: the source has not delivered its first burst. Nothing is
	// programmed.
	phaseStarting phase = iota
	// phaseIdle: the kernel has everything.
	phaseIdle
	// phaseDue: there are changes, and the loop syncs now.
	phaseDue
	// phasePaused: the last sync was less than Config.MinSyncPeriod ago.
	phasePaused
	// phasePausedDue: the same, and there are changes.
	phasePausedDue
	// phaseBackoff: the last sync failed, or the kernel must be read again. It is retried
	// when the backoff is over.
	phaseBackoff
	// phasePausedBackoff: both the pause and the backoff must be over.
	phasePausedBackoff
)

// signal is what the loop's goroutine has learned or done.
type signal uint8

const (
	signalBurst       signal = iota // the source delivered events
	signalChange                    // addresses or shares changed, or postponed work is retried
	signalSynced                    // a sync succeeded
	signalPause                     // Config.MinSyncPeriod begins
	signalPauseOver                 //
	signalBackoff                   // a sync or a repair failed, or the kernel must be read again
	signalBackoffOver               //
)

var transitions = map[phase]map[signal]phase{
	phaseStarting: {signalBurst: phaseDue},
	phaseIdle: {
		signalBurst: phaseDue, signalChange: phaseDue,
		signalPause: phasePaused, signalBackoff: phaseBackoff,
	},
	phaseDue: {signalSynced: phaseIdle, signalBackoff: phaseBackoff},
	phasePaused: {
		signalBurst: phasePausedDue, signalChange: phasePausedDue,
		signalPauseOver: phaseIdle, signalBackoff: phasePausedBackoff,
	},
	phasePausedDue:     {signalPauseOver: phaseDue, signalBackoff: phasePausedBackoff},
	phaseBackoff:       {signalBackoffOver: phaseDue, signalPause: phasePausedBackoff},
	phasePausedBackoff: {signalBackoffOver: phasePausedDue, signalPauseOver: phaseBackoff},
}

// on returns the phase after a signal. A signal without a transition changes nothing.
func (p phase) on(s signal) phase {
	if next, ok := transitions[p][s]; ok {
		return next
	}
	return p
}
