package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// ones returns n weights of one.
func ones(n int) []uint16 { return slices.Repeat([]uint16{1}, n) }

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
		"of many endpoints four each":          {chosen, 0, append(ones(300), 65535), append(ones(300), 904)},
		"a hash of too many is not used":       {every, 0, append(ones(255), 2), append(ones(255), 2)},
		"a table needs none":                   {[]Scheduler{SchedulerMaglev}, 0, append(ones(250), 2), nil},
		"a table that is too small is not one": {[]Scheduler{SchedulerMaglev}, 0, append(ones(251), 2), append(ones(251), 2)},
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
	if got := Apportion([]uint16{5, 4}, 4); !slices.Equal(got, []uint16{2, 2}) {
		t.Errorf("quotas of 2.22 and 1.78 are %v, want the larger remainder rounded up", got)
	}
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

// TestWeightChangeOfCachedSlice changes nothing else of one of many slices.
func TestWeightChangeOfCachedSlice(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m, from := largeMap(f, p, minCachedSlices, 10)
		s, pool := from[1], func() *Pool { return m.services[web].frontends[0].Pool }
		s.Weight = 3
		m.SetSlice(s)
		m.Changes()
		if want := slices.Concat(ones(10), slices.Repeat([]uint16{3}, 10), ones(20)); !slices.Equal(pool().ClusterShares, want) {
			t.Errorf("got %v, want %v", pool().ClusterShares, want)
		}
		s.Drained = true
		m.SetSlice(s)
		m.Changes()
		if pool().ClusterShares != nil || len(pool().Cluster) != 30 {
			t.Errorf("drained: %v are %v", pool().Cluster, pool().ClusterShares)
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
				// Endpoints that get a whole entry for less leave less to the others.
				if got[e] < 1 || got[e] > int(quota)+2 {
					t.Errorf("%v: endpoint %d has %d entries for a quota of %.2f", weights, i, got[e], quota)
				}
			}
		}
	}
}

// leastConnections makes a Service one with least connections, and a Local policy for
// external traffic.
func leastConnections(s *Service) {
	s.Scheduler, s.ExternalPolicy = SchedulerLeastConnections, PolicyLocal
}

// sharesOf returns the shares of the cluster's and the node's list.
func sharesOf(m *ServiceMap, f Family, p Protocol) (cluster, local []uint16) {
	pool := m.FrontendsOf(webService(p, f).Name)[0].Pool
	return pool.ClusterShares, pool.LocalShares
}

func TestSharesCountWhileEndpointsStay(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		three := []pod{ready(1).on(here), ready(2).on(there), ready(3).on(here)}
		m := allKindsMap(f, p, leastConnections)
		m.SetSlice(webSlice(f, p, three...))
		m.Changes()
		key := webMatch(KindClusterIP, f, p)
		shares := PoolShares{
			Key:     key,
			Cluster: ListShares{Endpoints: podPorts(f, 1, 2, 3), Shares: []uint16{0, 4, 8}},
			Local:   ListShares{Endpoints: podPorts(f, 1, 3), Shares: []uint16{5, 3}},
		}
		check := func(when string, cluster, local []uint16) {
			t.Helper()
			m.Changes()
			if c, l := sharesOf(m, f, p); !slices.Equal(c, cluster) || !slices.Equal(l, local) {
				t.Errorf("%s: shares %v and %v, want %v and %v", when, c, l, cluster, local)
			}
		}
		m.SetOverlays([]Overlay{shares})
		if set := len(m.Changes().Set); set != len(kinds) {
			t.Errorf("%d frontends changed, want all", set)
		}
		check("without another change", shares.Cluster.Shares, shares.Local.Shares)
		m.SetService(changed(webAllKinds(p, f), leastConnections))
		check("when the Service was updated", shares.Cluster.Shares, shares.Local.Shares)

		m.SetSlice(webSlice(f, p, ready(1).on(here), ready(4).on(there), ready(3).on(here)))
		check("when another node has another endpoint", nil, shares.Local.Shares)
		m.SetSlice(webSlice(f, p, three...))
		check("when it is back", nil, shares.Local.Shares)
		m.SetOverlays([]Overlay{shares})
		check("when they are set again", shares.Cluster.Shares, shares.Local.Shares)

		m.SetOverlays([]Overlay{PoolShares{Key: key, Cluster: shares.Cluster}})
		check("of the cluster only", shares.Cluster.Shares, nil)
		m.SetOverlays([]Overlay{PoolShares{Key: key, Local: shares.Local}})
		check("of the node only", nil, shares.Local.Shares)
		m.SetOverlays([]Overlay{PoolShares{Key: key}})
		check("when they follow the weights", nil, nil)
		m.SetOverlays([]Overlay{PoolShares{Key: key, Cluster: ListShares{Endpoints: podPorts(f, 1, 2), Shares: []uint16{1, 9}}}})
		check("for endpoints that it does not have", nil, nil)
		other := shares
		other.Key.Port++
		m.SetOverlays([]Overlay{other})
		check("for another pool", nil, nil)

		m.SetOverlays([]Overlay{shares})
		m.SetService(changed(webAllKinds(p, f)))
		check("with another scheduler", nil, nil)
		m.SetService(changed(webAllKinds(p, f), leastConnections))
		check("with the scheduler again", nil, nil)
		m.SetOverlays([]Overlay{shares})
		m.DeleteService(webService(p, f).Name)
		m.Changes()
		m.SetService(changed(webAllKinds(p, f), leastConnections))
		check("when the Service was removed", nil, nil)
	})
}
