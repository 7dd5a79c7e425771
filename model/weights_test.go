package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// repeat returns n times a weight.
func repeat(n int, weight uint16) []uint16 { return slices.Repeat([]uint16{weight}, n) }

func TestSharesForWeights(t *testing.T) {
	every := []Scheduler{SchedulerRandom, SchedulerRoundRobin, SchedulerSourceHash}
	chosen := []Scheduler{SchedulerRandom, SchedulerRoundRobin}
	for name, test := range map[string]struct {
		schedulers []Scheduler
		affinity   time.Duration
		weights    []uint16
		want       []uint16
	}{
		"equal weights have no shares":         {append(every, SchedulerMaglev), 0, nil, nil},
		"a ratio":                              {every, 0, []uint16{1, 2, 3}, []uint16{1, 2, 3}},
		"in lowest terms":                      {every, 0, []uint16{100, 200, 50}, []uint16{2, 4, 1}},
		"as many as there are slots":           {every, 0, []uint16{254, 1}, []uint16{254, 1}},
		"a hash has slots only":                {[]Scheduler{SchedulerSourceHash}, 0, []uint16{999, 1}, []uint16{254, 1}},
		"a hash with affinity is not used":     {append(every, SchedulerMaglev), time.Hour, []uint16{999, 1}, []uint16{999, 1}},
		"the sum, if all are in one map":       {chosen, 0, []uint16{1000, 24}, []uint16{125, 3}},
		"the sum of a map":                     {chosen, 0, []uint16{1023, 1}, []uint16{1023, 1}},
		"nearly, if there are too many":        {chosen, 0, []uint16{3000, 1001}, []uint16{768, 256}},
		"at least one each":                    {chosen, 0, []uint16{65535, 1, 1}, []uint16{1022, 1, 1}},
		"of many endpoints four each":          {chosen, 0, append(repeat(300, 1), 65535), append(repeat(300, 1), 904)},
		"a hash of too many is not used":       {every, 0, append(repeat(255, 1), 2), append(repeat(255, 1), 2)},
		"a table needs none":                   {[]Scheduler{SchedulerMaglev}, 0, append(repeat(250, 1), 2), nil},
		"a table that is too small is not one": {[]Scheduler{SchedulerMaglev}, 0, append(repeat(251, 1), 2), append(repeat(251, 1), 2)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range test.schedulers {
				p := Pool{Scheduler: s, Affinity: test.affinity}
				if got := p.sharesFor(test.weights); !slices.Equal(got, test.want) {
					t.Errorf("%s: got %v, want %v", s, got, test.want)
				}
			}
		})
	}
}

// TestApportion checks, for random weights, that all slots are given out, and each share is
// less than one slot from the exact quota of those that have more than one.
func TestApportion(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		weights := make([]uint16, 1+random.IntN(40))
		for i := range weights {
			weights[i] = uint16(random.IntN(1 << random.IntN(17)))
		}
		positive := len(slices.DeleteFunc(slices.Clone(weights), func(w uint16) bool { return w == 0 }))
		if positive == 0 {
			continue
		}
		slots := positive + random.IntN(1000)
		got := Apportion(weights, slots)
		if sum(got) != slots {
			t.Fatalf("%v of %d slots are %v", weights, slots, got)
		}
		total, left := 0, slots
		for i, w := range weights {
			if got[i] == 1 {
				left--
			} else {
				total += int(w)
			}
		}
		for i, w := range weights {
			quota := float64(w) * float64(slots) / float64(sum(weights))
			switch {
			case (w == 0) != (got[i] == 0):
				t.Fatalf("weight %d has %d of %d slots: %v are %v", w, got[i], slots, weights, got)
			case got[i] > 1 && math.Abs(float64(got[i])-float64(w)*float64(left)/float64(total)) >= 1 && float64(got[i]) > quota+1:
				t.Fatalf("weight %d has %d of %d slots: %v are %v", w, got[i], slots, weights, got)
			}
		}
	}
}

func TestApportionIsFast(t *testing.T) {
	weights := make([]uint16, 100_000)
	for i := range weights {
		weights[i] = uint16(1 + i%65535)
	}
	p := Pool{Scheduler: SchedulerRandom}
	if got := p.sharesFor(weights); sum(got) != 400_000 {
		t.Errorf("%d slots", sum(got))
	}
}

// TestWeightChangeOfCachedSlice changes the weight of one of many slices.
func TestWeightChangeOfCachedSlice(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m, from := largeMap(f, p)
		s := from[1]
		s.Weight = 3
		m.SetSlice(s)
		m.Changes()
		pool := m.services[web].frontends[0].Pool
		want := append(append(repeat(10, 1), repeat(10, 3)...), repeat(20, 1)...)
		if !slices.Equal(pool.ClusterShares, want) {
			t.Errorf("got %v, want %v", pool.ClusterShares, want)
		}
		s.Drained = true
		m.SetSlice(s)
		m.Changes()
		if pool = m.services[web].frontends[0].Pool; pool.ClusterShares != nil || len(pool.Cluster) != 30 {
			t.Errorf("drained: %v are %v", pool.Cluster, pool.ClusterShares)
		}
		checkCaches(t, m)
	})
}

func TestDuplicateWithWeightIsUsed(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		plain, heavy, light := webSlice(f, p, ready(1), ready(2)), webSlice(f, p, ready(1)), webSlice(f, p, ready(1))
		heavy.Weight, light.Weight = 9, 5
		drained := heavy
		drained.Drained = true
		for _, from := range [][]EndpointSlice{{plain, heavy, light}, {light, heavy, plain}, {heavy, light, plain}} {
			if got := selectEndpoints(httpPort(p), f, from, thisNode); !slices.Equal(got.clusterWeights, []uint16{5, 1}) {
				t.Errorf("weights %v", got.clusterWeights)
			}
			if got := selectEndpoints(httpPort(p), f, append(from, drained), thisNode); !slices.Equal(got.cluster, podPorts(f, 2)) {
				t.Errorf("with a drained one, %v", got.cluster)
			}
		}
	})
}

func TestReasonOfDrained(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		s := webSlice(f, p, ready(1).on(here), servingTerminating(2), notReady(3))
		s.Drained, s.Weight = true, 7
		other := webSlice(f, p, ready(4))
		other.Weight = 3
		var reasons []Reason
		var weights []uint16
		for _, e := range ExplainSelection(httpPort(p), f, []EndpointSlice{s, other}, thisNode) {
			reasons, weights = append(reasons, e.Cluster, e.Local), append(weights, e.Weight)
		}
		want := []Reason{ReasonDrained, ReasonDrained, ReasonDrained, ReasonDrained, ReasonNotReady, ReasonNotReady, ReasonNone, ReasonNotLocal}
		if !slices.Equal(reasons, want) || !slices.Equal(weights, []uint16{0, 0, 0, 3}) {
			t.Errorf("got %v of weights %v, want %v", reasons, weights, want)
		}
	})
}

func TestWeightedMaglevTable(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, f := range Families {
		for range 300 {
			endpoints := endpointsOf(f, 1+random.IntN(60), random)
			weights := make([]uint16, len(endpoints))
			for i := range weights {
				weights[i] = uint16(1 + random.IntN(1<<random.IntN(16)))
			}
			got := shares(MaglevTable(endpoints, weights, MaglevTableSize))
			for i, e := range endpoints {
				quota := float64(weights[i]) * MaglevTableSize / float64(sum(weights))
				// Those that get a whole entry for less leave less to the others.
				if got[e] < 1 || got[e] > int(quota)+2 {
					t.Errorf("%v: endpoint %d has %d entries for a quota of %.2f", weights, i, got[e], quota)
				}
			}
		}
	}
}

func TestMaglevTableOfEqualWeightsIsThatWithout(t *testing.T) {
	for _, f := range Families {
		endpoints := endpointsOf(f, 37, nil)
		if !slices.Equal(MaglevTable(endpoints, repeat(37, 7), MaglevTableSize), MaglevTable(endpoints, nil, MaglevTableSize)) {
			t.Error("the tables differ")
		}
	}
}

// TestMaglevMovesWithWeight changes one weight at a time. Entries that its endpoint wins or
// loses have to change. The bounds of the others are the results, and a quarter more: no
// more than if one endpoint is removed (TestMaglevDisruptionIsSmall).
func TestMaglevMovesWithWeight(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, test := range []struct {
		n           int
		mean, worst float64 // percent of all entries
	}{{3, 0.9, 8.5}, {5, 2.5, 7.5}, {10, 5.4, 15}, {20, 7.9, 16}, {50, 6.2, 16}, {100, 4.3, 11}} {
		var d disruption
		for i := range 100 {
			endpoints := endpointsOf(Families[i%2], test.n, random)
			weights := make([]uint16, test.n)
			for k := range weights {
				weights[k] = uint16(1 + random.IntN(10))
			}
			before := MaglevTable(endpoints, weights, MaglevTableSize)
			one := random.IntN(test.n)
			changed := slices.Clone(weights)
			changed[one] = uint16(1 + random.IntN(20))
			d.add(before, MaglevTable(endpoints, changed, MaglevTableSize), endpoints[one])
		}
		d.check(t, test.mean, test.worst)
	}
}

func TestWeightsCountInBudget(t *testing.T) {
	for name, test := range map[string]struct {
		scheduler Scheduler
		affinity  time.Duration
		weights   [2]uint16
		want      int
	}{
		"equal weights":              {SchedulerRandom, 0, [...]uint16{1000, 1000}, 10 + 2*3},
		"in lowest terms":            {SchedulerRandom, 0, [...]uint16{100, 300}, 10 + 1 + 2*3 + 3},
		"slots":                      {SchedulerRandom, 0, [...]uint16{2, 20}, 10 + 1 + 2*10 + 3},
		"more than there may be":     {SchedulerRandom, 0, [...]uint16{1, 65535}, 10 + 4*(1024+4*3)},
		"with affinity":              {SchedulerRandom, time.Hour, [...]uint16{2, 20}, 10 + 4*(1+2*10) + 4*3},
		"a table has the same size":  {SchedulerMaglev, 0, [...]uint16{1, 65535}, 10 + 2*3 + weightOfMaglevTable},
		"one in one map and another": {SchedulerRandom, 0, [...]uint16{1, 200}, 10 + 4*401},
	} {
		t.Run(name, func(t *testing.T) {
			every(t, func(t *testing.T, f Family, p Protocol) {
				m := NewServiceMap(Options{}, thisNode)
				s := webService(p, f)
				s.Scheduler, s.Affinity = test.scheduler, test.affinity
				m.SetService(s)
				for i, weight := range test.weights {
					slice := webSlice(f, p, []pod{ready(0), ready(1), ready(2)}[i:2*i+1]...)
					slice.Name.Name, slice.Weight = string(rune('a'+i)), weight
					m.SetSlice(slice)
				}
				empty := webSlice(f, p) // as the EndpointSlice controller keeps one
				empty.Name.Name = "empty"
				m.SetSlice(empty)
				m.Changes()
				if got := m.services[web].weight; got != test.want {
					t.Errorf("weight %d, want %d", got, test.want)
				}
			})
		})
	}
}

// Endpoints that do not fit into a table of Maglev have slots instead.
func TestWeightsOfMoreThanATableCountInBudget(t *testing.T) {
	s := webService(TCP, IPv4)
	s.Scheduler = SchedulerMaglev
	e := serviceEntry{service: &s}
	for _, weight := range []uint16{1, 65535} {
		e.slices = append(e.slices, EndpointSlice{Weight: weight, Ports: make([]EndpointPort, 1), Endpoints: make([]Endpoint, MaglevTableSize)})
	}
	pool := Pool{Scheduler: s.Scheduler, ClusterWeights: slices.Concat(slices.Repeat([]uint16{1}, MaglevTableSize), slices.Repeat([]uint16{65535}, MaglevTableSize))}
	if slots, got := sum(pool.SharesOfWeights(false)), e.measure(); got < slots*weightOfSharedEndpoint {
		t.Errorf("weight %d of %d slots in a shared map", got, slots)
	}
}
