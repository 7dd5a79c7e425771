package sync

import "testing"

// TestPhases has transitions that scripts and [TestMinSyncPeriod] do not reach.
func TestPhases(t *testing.T) {
	type step struct {
		signal signal
		want   phase
	}
	tests := map[string][]step{
		"a failed repair of drift begins a backoff": {
			{signalBurst, phaseDue}, {signalSynced, phaseIdle}, {signalBackoff, phaseBackoff}, {signalBackoffOver, phaseDue},
		},
		"pause and backoff must both be over, backoff first": {
			{signalBurst, phaseDue},
			{signalSynced, phaseIdle},
			{signalBackoff, phaseBackoff},
			{signalPause, phasePausedBackoff},
			{signalBackoffOver, phasePausedDue},
			{signalPauseOver, phaseDue},
		},
		"pause and backoff must both be over, pause first": {
			{signalBurst, phaseDue},
			{signalSynced, phaseIdle},
			{signalPause, phasePaused},
			{signalBackoff, phasePausedBackoff},
			{signalBurst, phasePausedBackoff},
			{signalPauseOver, phaseBackoff},
			{signalBackoffOver, phaseDue},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			p := phaseStarting
			for i, s := range steps {
				if got := p.on(s.signal); got != s.want {
					t.Fatalf("step %d: phase %d on signal %d results in %d, want %d", i, p, s.signal, got, s.want)
				}
				p = s.want
			}
		})
	}
}

// TestEveryPhaseLeadsToASync follows the signals that arrive without any action of the
// source.
func TestEveryPhaseLeadsToASync(t *testing.T) {
	for p := phaseIdle; p <= phasePausedBackoff; p++ {
		next := p.on(signalChange)
		for _, s := range []signal{signalPauseOver, signalBackoffOver, signalPauseOver} {
			next = next.on(s)
		}
		if next != phaseDue {
			t.Errorf("a change in phase %d ends in phase %d", p, next)
		}
	}
}
