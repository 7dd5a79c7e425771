package leastconn

import (
	"testing"
	"time"
)

// delays are how long after an observation its shares take effect: soon, or a whole period
// later.
var delays = []time.Duration{50 * time.Millisecond, period}

// TestConnectionsAreEvenAfterRestartAndScaling has the scenario of the marks.
func TestConnectionsAreEvenAfterRestartAndScaling(t *testing.T) {
	const runs = 20
	_, random := worst(runs, func(seed uint64) float64 { return scale(seed, randomly).imbalance() })
	t.Logf("mean imbalance: random %.3f", random)
	for _, delay := range delays {
		largest, mean := worst(runs, func(seed uint64) float64 { return scale(seed, leastConnections(delay)).imbalance() })
		t.Logf("least connections, %s late: mean %.3f, at most %.3f", delay, mean, largest)
		if largest > 1.15 || mean > random {
			t.Errorf("least connections, %s late: at most %.3f, want 1.15 and less than random", delay, largest)
		}
	}
}

// settled returns the mean imbalance of half a minute, after some time.
func settled(s *simulation, d design, perSecond float64, before time.Duration) (mean float64) {
	s.run(d, perSecond, before)
	const samples = 300
	for range samples {
		s.run(d, perSecond, 100*time.Millisecond)
		mean += s.imbalance() / samples
	}
	return mean
}

// TestNoOscillation has connections of any lifetime in comparison with the period, with some 1,000
// active ones, and pools whose shares stay in effect for many periods, because others have their
// turns meanwhile: none may be more uneven than with random.
func TestNoOscillation(t *testing.T) {
	for _, lifetime := range []time.Duration{20 * time.Millisecond, time.Second, 3 * time.Second, 30 * time.Second} {
		run := func(d design, turn int) (mean float64) {
			_, mean = worst(3, func(seed uint64) float64 {
				return settled(newSimulation(seed, lifetime), d, min(1000/lifetime.Seconds(), 5000), 3*lifetime+time.Duration(5*turn)*period)
			})
			return mean
		}
		random := run(randomly, 2)
		for name, got := range map[string]float64{
			"soon in effect": run(leastConnections(delays[0]), 2), "in effect a period later": run(leastConnections(delays[1]), 2),
			"a turn every 5 periods": run(inTurns(5), 5), "a turn every 60 periods": run(inTurns(60), 60),
		} {
			t.Logf("lifetime %s, %s: imbalance %.3f, random %.3f", lifetime, name, got, random)
			if got > random*1.02 {
				t.Errorf("lifetime %s, %s: imbalance %.3f, want less than with random, %.3f", lifetime, name, got, random)
			}
		}
	}
}
