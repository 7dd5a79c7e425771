package model

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func slowStart(s *Service) { s.SlowStart = time.Minute }

// local is slowStart with a Local policy for external traffic.
func local(s *Service) { s.SlowStart, s.ExternalPolicy = time.Minute, PolicyLocal }

// stepsText returns the pods of a list with their steps: "1:8 3:1", or "1 3" if there are none.
func stepsText(f Family, list ListShares) string {
	var words []string
	for i, a := range list.Endpoints {
		k := 1 + slices.Index(podPorts(f, 1, 2, 3, 4), a)
		if list.Steps.Eighths == nil {
			words = append(words, fmt.Sprint(k))
		} else {
			words = append(words, fmt.Sprintf("%d:%d", k, list.Steps.Eighths[i]))
		}
	}
	return strings.Join(words, " ")
}

// TestEndpointsThatJoinStartSlowly changes the endpoints of a Service, of which 1 and 2 are on this
// node.
func TestEndpointsThatJoinStartSlowly(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		m := NewServiceMap(Options{PassiveChecks: PassiveChecksAvoid, MaxAvoidedPercent: 50}, thisNode)
		key := webMatch(KindClusterIP, f, p)
		one, two, three, four := ready(1).on(here), ready(2).on(here), ready(3).on(there), ready(4).on(there)
		pods := func(all ...pod) func() {
			return func() { m.SetSlice(webSlice(f, p, all...)) }
		}
		overlay := func(o Overlay) func() { return func() { m.SetOverlays([]Overlay{o}) } }
		steps := func(steps []uint8, numbers ...int) ListShares {
			return ListShares{Endpoints: podPorts(f, numbers...), Steps: Steps{steps, 50}}
		}
		standby := webSlice(f, p, ready(3), ready(4))
		standby.Name.Name, standby.Priority = "standby", 1
		m.SetService(changed(webAllKinds(p, f), local))
		for _, test := range []struct {
			when           string
			change         func()
			cluster, local string
		}{
			{"a new pool", pods(one), "1", "1"},
			{"one joins, on this node the first", pods(one, three), "1:8 3:1", "1"},
			{"another one joins", pods(one, two, three), "1:8 2:1 3:1", "1:8 2:1"},
			{"a step", overlay(SlowStart{key, steps([]uint8{8, 2, 4}, 1, 2, 3), steps([]uint8{8, 2}, 1, 2)}), "1:8 2:2 3:4", "1:8 2:2"},
			{"a step of endpoints before", overlay(SlowStart{key, steps([]uint8{8, 4}, 1, 2), steps(nil, 1, 2)}), "1:8 2:4 3:1", "1 2"},
			{"the warm one leaves", pods(two, three), "2:4 3:1", "2"},
			{"all are others", pods(one, four), "1 4", "1"},
			{"one leaves and returns in one change", func() { pods(one)(); pods(one, four)() }, "1 4", "1"},
			{"one leaves", pods(one), "1", "1"},
			{"and returns", pods(one, four), "1:8 4:1", "1"},
			{"the other one is avoided", overlay(UnresponsiveEndpoints{key, podPorts(f, 1)}), "4:1", "1"},
			{"and not any longer", overlay(UnresponsiveEndpoints{Key: key}), "1:1 4:1", "1"},
			{"at their ends", overlay(SlowStart{key, steps([]uint8{8, 8}, 1, 4), steps(nil, 1)}), "1:8 4:8", "1"},
			{"without steps", overlay(SlowStart{key, steps(nil, 1, 4), steps(nil, 1)}), "1 4", "1"},
			{"an overlay is too late for all of them", overlay(SlowStart{key, steps(nil, 2), steps(nil)}), "1 4", "1"},
			{"none", pods(), "", ""},
			{"all return", pods(one, two), "1 2", "1 2"},
			{"endpoints stand by", func() { m.SetSlice(standby) }, "1 2", "1 2"},
			{"the others end, and these begin", pods(), "3 4", ""},
			{"the first one of them returns", pods(one), "1", "1"},
			{"then the other one", pods(one, two), "1:8 2:1", "1:8 2:1"},
			{"without the annotation", func() { m.SetService(webAllKinds(p, f)) }, "1 2", ""},
			{"with it again, and a pod", func() { m.SetService(changed(webAllKinds(p, f), local)); pods(one, two, three)() }, "1 2 3", "1 2"},
			{"by address", func() {
				m.SetService(changed(webAllKinds(p, f), local, func(s *Service) { s.Scheduler = SchedulerMaglev }))
				pods(one, two)()
			}, "1 2", "1 2"},
			{"no longer", func() { m.SetService(changed(webAllKinds(p, f), local)) }, "1 2", "1 2"},
			{"a service of that name", func() {
				m.DeleteService(web)
				m.Changes()
				m.SetService(changed(webAllKinds(p, f), local))
				pods(one, three)()
			}, "1 3", "1"},
		} {
			test.change()
			m.Changes()
			pool := poolOfWeb(m, f, p)
			if c, l := stepsText(f, pool.List(false)), stepsText(f, pool.List(true)); c != test.cluster || l != test.local {
				t.Errorf("%s: %q and on the node %q, want %q and %q", test.when, c, l, test.cluster, test.local)
			}
		}
	})
}

// TestStepsChangeSlotsOnly takes endpoints through their steps: only the owner of the pool changes, and
// shares are as the steps say.
func TestStepsChangeSlotsOnly(t *testing.T) {
	for _, scheduler := range []Scheduler{SchedulerRandom, SchedulerRoundRobin, SchedulerLeastConnections} {
		every(t, func(t *testing.T, f Family, p Protocol) {
			m := allKindsMap(f, p, slowStart, func(s *Service) { s.Scheduler = scheduler })
			m.SetSlice(webSlice(f, p, ready(1), ready(2), ready(3), ready(4)))
			m.Changes()
			pool, key := poolOfWeb(m, f, p), webMatch(KindClusterIP, f, p)
			slots := pool.Slots(false)
			for step := uint8(2); step <= FullStep; step *= 2 {
				m.SetOverlays([]Overlay{SlowStart{Key: key, Cluster: ListShares{Endpoints: pool.Cluster, Steps: Steps{[]uint8{8, 8, step, step}, slots}}}})
				if set := m.Changes().Set; len(set) != 1 || set[0].Pool.Slots(false) != slots {
					t.Errorf("step %d changes %d frontends, want 1 with %d slots", step, len(set), slots)
				}
				checkSteps(t, poolOfWeb(m, f, p).List(false), 0.15)
			}
		})
	}
}

// checkSteps compares the shares of a list with its steps. Those that start may be off by a part of
// what they should have, and by less than a slot.
func checkSteps(t *testing.T, list ListShares, tolerance float64) {
	t.Helper()
	weight := func(i int) float64 {
		if list.Weights == nil {
			return float64(list.Steps.Eighths[i])
		}
		return float64(list.Weights[i]) * float64(list.Steps.Eighths[i])
	}
	all, total := 0.0, sum(list.Shares)
	for i := range list.Shares {
		all += weight(i)
	}
	for i, step := range list.Steps.Eighths {
		exact := float64(total) * weight(i) / all
		off := math.Abs(float64(list.Shares[i]) - exact)
		if step < FullStep && (off >= 1 || off > tolerance*exact) || list.Shares[i] == 0 {
			t.Errorf("steps %v of weights %v: shares %v, want %.2f of %d", list.Steps, list.Weights, list.Shares, exact, total)
			return
		}
	}
}

// joined returns a pool of endpoints of which the last ones have joined.
func joined(n, joined int, weights []uint16) *Pool {
	p := &Pool{ClusterWeights: weights, SlowStart: time.Minute}
	for i := range n {
		p.Cluster = append(p.Cluster, netip.AddrPortFrom(podIP(IPv6, i), podPort))
	}
	before := ListShares{Endpoints: p.Cluster[:n-joined]}
	p.ClusterSteps = before.stepsIn(p, false)
	return p
}

// TestSharesOfStepsAreExact has endpoints join together, and takes them through their steps: a single one
// has the share of its step, and several have together.
func TestSharesOfStepsAreExact(t *testing.T) {
	for n := 2; n < 6000; n += 1 + n/8 {
		for _, starting := range []int{1, n / 4, n / 2, n - 1} {
			for _, weights := range [][]uint16{nil, slices.Repeat([]uint16{5}, n), append(slices.Repeat([]uint16{3}, n-1), 1)} {
				if starting == 0 || weights != nil && FullStep*3*n > minManySlots { // where weights are not exact
					continue
				}
				p := joined(n, starting, weights)
				slots := p.ClusterSteps.Slots
				for step := uint8(1); step < FullStep; step *= 2 {
					for i := n - starting; i < n; i++ {
						p.ClusterSteps.Eighths[i] = step
					}
					p.ClusterShares = p.SharesOfWeights(false)
					parts := p.ClusterSteps.parts(p.sharesFor(weights))
					exact := float64(slots) * float64(sum(parts[n-starting:])) / float64(sum(parts))
					got := float64(sum(p.ClusterShares[n-starting:]))
					if p.Slots(false) != slots || math.Abs(got-exact) > 0.1*exact {
						t.Fatalf("%d of %d start, step %d: %.0f of %d slots, want %.2f of %d",
							starting, n, step, got, p.Slots(false), exact, slots)
					}
					if starting == 1 {
						checkSteps(t, p.List(false), 0.1)
					}
				}
			}
		}
	}
}

// TestSlowStartIsWithinItsBudget compares what a Service is counted with the slots of its endpoints
// while some start.
func TestSlowStartIsWithinItsBudget(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		service := changed(webService(TCP, IPv4, IPv6), slowStart)
		service.Ports = ports(1 + random.IntN(3))
		e, slots := serviceEntry{service: &service}, 0
		for range len(service.Ports) * len(Families) {
			n := 2 + random.IntN([]int{3, 30, 300, 3000}[random.IntN(4)])
			e.slices = append(e.slices, EndpointSlice{Ports: make([]EndpointPort, 1), Endpoints: make([]Endpoint, n)})
			slots += joined(n, 1+random.IntN(n-1), nil).ClusterSteps.Slots
		}
		if weight := e.measure(); weight < slots {
			t.Fatalf("%v counts as %d, but has %d slots", e.slices, weight, slots)
		}
	}
}

// TestSlowStartHistories compares random changes with steps that are computed from each change.
func TestSlowStartHistories(t *testing.T) {
	for seed := range fewerIfShort(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		f, p := Family(seed%2), Protocol(seed/2%3)
		m := NewServiceMap(Options{PassiveChecks: PassiveChecksAvoid, MaxAvoidedPercent: 50}, thisNode)
		m.SetService(changed(webAllKinds(p, f), local))
		key := webMatch(KindClusterIP, f, p)
		var want [2]map[netip.AddrPort]uint8 // of the two lists
		var starts [2]bool
		for range 40 {
			switch random.IntN(3) {
			case 0, 1:
				var pods []pod
				for k := range 5 {
					if random.IntN(3) > 0 {
						pods = append(pods, ready(k).on([]string{here, there}[random.IntN(2)]))
					}
				}
				m.SetSlice(webSlice(f, p, pods...))
				if random.IntN(3) == 0 {
					m.SetOverlays([]Overlay{UnresponsiveEndpoints{key, podPorts(f, random.IntN(5))}})
				}
			case 2:
				var lists [2]ListShares
				for i := range want {
					starts[i] = starts[i] && random.IntN(4) > 0
					lists[i].Endpoints = slices.SortedFunc(maps.Keys(want[i]), netip.AddrPort.Compare)
					for _, a := range lists[i].Endpoints {
						if want[i][a] = min(2*want[i][a], FullStep); !starts[i] {
							want[i][a] = FullStep
						} else {
							lists[i].Steps = Steps{append(lists[i].Steps.Eighths, want[i][a]), 50}
						}
					}
				}
				m.SetOverlays([]Overlay{SlowStart{key, lists[0], lists[1]}})
			}
			m.Changes()
			for i, isLocal := range []bool{false, true} {
				list := poolOfWeb(m, f, p).List(isLocal)
				want[i], starts[i] = oracleSteps(want[i], starts[i], list.Endpoints)
				for k, a := range list.Endpoints {
					if step := want[i][a]; starts[i] != (list.Steps.Eighths != nil) || starts[i] && list.Steps.Eighths[k] != step {
						t.Fatalf("seed %d: %v have steps %v, want %v", seed, list.Endpoints, list.Steps, want[i])
					}
				}
			}
		}
	}
}

// oracleSteps returns the steps of a list after a change, and whether some start, or did lately.
func oracleSteps(before map[netip.AddrPort]uint8, starts bool, list []netip.AddrPort) (map[netip.AddrPort]uint8, bool) {
	now, others := map[netip.AddrPort]uint8{}, 0
	for _, a := range list {
		if now[a] = before[a]; before[a] > 0 {
			others++
		}
	}
	for a, step := range now {
		switch {
		case others == 0:
			now[a] = FullStep
		case step == 0:
			now[a], starts = 1, true
		}
	}
	return now, starts && others > 0
}
