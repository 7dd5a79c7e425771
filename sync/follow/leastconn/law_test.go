package leastconn

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/model"
)

// active returns loads of endpoints of the same weight.
func active(connections ...float64) (out []load) {
	for _, n := range connections {
		out = append(out, load{n, 1})
	}
	return out
}

func TestSharesFillTheLowestEndpointsFirst(t *testing.T) {
	for _, tt := range []struct {
		name     string
		loads    []load
		arrivals float64
		current  []uint16
		want     []uint16
	}{
		{"one endpoint", active(7), 100, nil, nil},
		{"no connections", active(0, 0, 0), 100, nil, nil},
		{"few connections", active(3, 1, 0), 0, nil, nil},
		{"within the tolerance", active(100, 107, 93), 0, nil, nil},
		{"arrivals fill one endpoint", active(60, 60, 0, 60), 20, nil, []uint16{0, 0, 16, 0}},
		{"arrivals fill two to the same level", active(60, 40, 20, 60), 40, nil, []uint16{0, 4, 12, 0}},
		{"arrivals fill all", active(30, 30, 0), 90, nil, []uint16{3, 3, 6}},
		{"many arrivals", active(30, 30, 0), 1e6, nil, nil},
		{"at most four times the fair share", active(50, 50, 50, 50, 50, 50, 0, 50), 8, nil, []uint16{3, 3, 2, 2, 2, 2, 16, 2}},
		{"weights", []load{{60, 2}, {30, 1}, {0, 1}}, 12, nil, []uint16{0, 0, 12}},
		{"near the level of weights", []load{{200, 20}, {10, 1}}, 0, nil, nil},
		{"a move that is too small", active(100, 100, 110, 80), 400, []uint16{4, 4, 3, 5}, []uint16{4, 4, 3, 5}},
		{"equal again", active(100, 100, 103, 97), 0, []uint16{3, 3, 3, 7}, nil},
		{"not near enough to be equal again", active(100, 100, 104, 90), 0, []uint16{3, 3, 0, 10}, []uint16{0, 0, 0, 16}},
	} {
		if got := shares(tt.loads, tt.arrivals, tt.current); !slices.Equal(got, tt.want) {
			t.Errorf("%s: shares %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSharesNeverTakeMoreThanTheSlots(t *testing.T) {
	for n := 2; n <= model.MaxSlots+1; n++ {
		loads := make([]load, n)
		for i := range loads {
			loads[i] = load{float64(1000 * (i % 3)), float64(1 + i%5)}
		}
		got, total := shares(loads, 100, nil), 0
		for _, x := range got {
			total += int(x)
		}
		switch {
		case n > model.MaxSlots && got != nil:
			t.Errorf("%d endpoints: %v, want none, they have no slots", n, got)
		case n <= model.MaxSlots && total != min(model.SharesPerEndpoint*n, model.MaxSlots):
			t.Errorf("%d endpoints: %d slots", n, total)
		}
	}
}

func TestFillBringsEndpointsToOneLevel(t *testing.T) {
	for _, arrivals := range []float64{1, 10, 100, 1000, 1e6} {
		loads := active(0, 5, 90, 95, 100, 100, 100, 250)
		got, most := fill(loads, arrivals), maxGain*arrivals/8
		low, high, total := 0.0, math.Inf(1), 0.0 // the bounds of the level
		for i, x := range got {
			after := loads[i].active + x
			total += x
			if x > 0 {
				low = max(low, after)
			}
			if x < most*0.999 {
				high = min(high, after)
			}
		}
		if math.Abs(total-arrivals) > 1e-6*arrivals || low > high+1e-6*arrivals {
			t.Errorf("%g arrivals: distributed %g as %v, with levels from %g to %g", arrivals, total, got, high, low)
		}
	}
}

// A simulation is a pool whose connections arrive at random, in steps of 10 ms.
type simulation struct {
	random    *rand.Rand
	t         time.Duration
	lifetime  time.Duration // the mean of connections; zero means that they last
	endpoints []int         // the connections of each
	shares    []uint16      // in effect; nil means equal
	rate      rate
	arrived   int // since the last observation
	observed  time.Duration
	pending   []pendingShares // observed, but not in effect yet
}

type pendingShares struct {
	at     time.Duration
	shares []uint16
}

// A design derives shares from an observation.
type design func(s *simulation, loads []load)

const (
	step   = 10 * time.Millisecond
	period = time.Second
)

// leastConnections is the law under test.
func leastConnections(delay time.Duration) design {
	return func(s *simulation, loads []load) {
		next := shares(loads, s.rate.expected(period), s.latest())
		if moved(s.latest(), next) > 0 || len(s.latest()) != len(next) {
			s.pending = append(s.pending, pendingShares{s.t + delay, next})
		}
	}
}

// inTurns is the law for a pool that has its turn at every nth observation: as many others
// wait for theirs.
func inTurns(n int) design {
	each := new(pool)
	return func(s *simulation, loads []load) {
		counts := map[endpoint]count{}
		each.cluster.Endpoints = nil
		for i, l := range loads {
			addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)
			each.cluster.Endpoints = append(each.cluster.Endpoints, addr)
			counts[endpoint{addr: addr}] = count{active: int(l.active), arrived: s.arrived / len(loads)}
		}
		due := pools{{}: each}.steer(counts, period, period)
		if len(due) == 0 {
			return
		}
		if each.waits++; each.waits == n {
			each.waits, each.cluster.Shares, s.shares = 0, due[0].cluster, due[0].cluster
		}
	}
}

// randomly leaves the shares equal.
func randomly(*simulation, []load) {}

// newSimulation returns a simulation of 10 endpoints.
func newSimulation(seed uint64, lifetime time.Duration) *simulation {
	return &simulation{random: rand.New(rand.NewPCG(seed, 1)), lifetime: lifetime, endpoints: make([]int, 10)}
}

// latest returns the shares that were computed last.
func (s *simulation) latest() []uint16 {
	if n := len(s.pending); n > 0 {
		return s.pending[n-1].shares
	}
	return s.shares
}

// run simulates some time with so many connections per second.
func (s *simulation) run(d design, perSecond float64, duration time.Duration) {
	for end := s.t + duration; s.t < end; s.t += step {
		for len(s.pending) > 0 && s.pending[0].at <= s.t {
			s.shares, s.pending = s.pending[0].shares, s.pending[1:]
		}
		for range s.poisson(perSecond * step.Seconds()) {
			s.endpoints[s.pick()]++
			s.arrived++
		}
		for i, n := range s.endpoints {
			if s.lifetime > 0 {
				s.endpoints[i] -= min(n, s.poisson(float64(n)*step.Seconds()/s.lifetime.Seconds()))
			}
		}
		if s.t%period == 0 && s.t > s.observed {
			s.observe(d)
		}
	}
}

func (s *simulation) observe(d design) {
	s.rate.add(float64(s.arrived), s.t-s.observed)
	var loads []load
	for _, n := range s.endpoints {
		loads = append(loads, load{float64(n), 1})
	}
	d(s, loads)
	s.arrived, s.observed = 0, s.t
}

func (s *simulation) pick() int {
	if len(s.shares) != len(s.endpoints) {
		return s.random.IntN(len(s.endpoints))
	}
	total := 0
	for _, n := range s.shares {
		total += int(n)
	}
	k := s.random.IntN(total)
	for i, n := range s.shares {
		if k -= int(n); k < 0 {
			return i
		}
	}
	panic("unreachable")
}

func (s *simulation) poisson(mean float64) (n int) {
	for p := s.random.ExpFloat64(); p < mean; p += s.random.ExpFloat64() {
		n++
	}
	return n
}

// imbalance returns the maximum of active connections divided by their mean.
func (s *simulation) imbalance() float64 {
	most, total := 0, 0
	for _, n := range s.endpoints {
		most, total = max(most, n), total+n
	}
	return float64(most) * float64(len(s.endpoints)) / float64(total)
}

// scale is the scenario of the marks: 10 endpoints, 2,000 connections that last, opened
// over a minute; one endpoint restarts, and five are added midway.
func scale(seed uint64, d design) *simulation {
	const perSecond = 2000. / 60
	s := newSimulation(seed, 0)
	s.run(d, perSecond, 20*time.Second)
	s.endpoints[3] = 0
	s.run(d, perSecond, 10*time.Second)
	s.endpoints = append(s.endpoints, make([]int, 5)...)
	s.shares, s.pending = nil, nil // equal until the new ones have been observed
	s.run(d, perSecond, 30*time.Second)
	return s
}

// worst returns the largest result of some runs, and their mean.
func worst(runs int, result func(seed uint64) float64) (largest, mean float64) {
	for seed := range runs {
		x := result(uint64(seed))
		largest, mean = max(largest, x), mean+x/float64(runs)
	}
	return largest, mean
}

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
