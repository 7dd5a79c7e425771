//go:build !race

// Simulated minutes are more than the race detector of Go 1.26 survives (ThreadSanitizer: CHECK
// failed in tsan_rtl.cpp). TestConcurrentUse is for it.

package passivehealth

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/throttle"
)

// busy serves a Service with three endpoints, which a client uses until probes have reached all.
func busy(w *world) *service {
	s := w.serve("default", "web", w.protocol, 3)
	w.use("l", s, 100*time.Millisecond)
	w.pass(10 * time.Second)
	return s
}

// kill stops packets to an endpoint, and waits until the loop knows.
func (w *world) kill(s *service, e endpoint) {
	w.t.Helper()
	w.pods[e.addr.Addr()].dead = true
	took := w.until(time.Minute, func() bool { return slices.Contains(w.received[s.key], e.addr) })
	if took > 4*time.Second {
		w.t.Errorf("found after %s", took)
	}
}

func TestFailedReadingsAreLoggedOnceAndChangeNothing(t *testing.T) {
	every(t, func(w *world) {
		s := busy(w)
		w.failure, w.pods[s.endpoints[0].addr.Addr()].dead = errors.New("interrupted"), true
		w.pass(10 * time.Second)
		if len(w.received) > 0 || strings.Count(w.log.String(), "interrupted") != 1 {
			w.t.Errorf("unresponsive %v, log:\n%s", w.received, &w.log)
		}
		w.failure = nil
		w.pass(10 * time.Second)
		if len(w.received[s.key]) != 1 || strings.Count(w.log.String(), "readable again") != 1 {
			w.t.Errorf("then unresponsive %v, log:\n%s", w.received, &w.log)
		}
	})
}

func TestFullTableDecidesNothing(t *testing.T) {
	every(t, func(w *world) {
		s := busy(w)
		w.full, w.pods[s.endpoints[0].addr.Addr()].dead = true, true
		if w.pass(time.Minute); len(w.received) > 0 {
			w.t.Errorf("unresponsive %v", w.received)
		}
	})
}

func TestSlowEndpointsAreResponsive(t *testing.T) {
	every(t, func(w *world) {
		s := busy(w)
		for _, e := range s.endpoints {
			w.pods[e.addr.Addr()].latency = 900 * time.Millisecond
		}
		if w.pass(time.Minute); len(w.received) > 0 {
			w.t.Errorf("unresponsive %v", w.received)
		}
	})
}

// TestFlappingEndpointChangesLessAndLess has an endpoint that is dead every other four seconds.
func TestFlappingEndpointChangesLessAndLess(t *testing.T) {
	every(t, func(w *world) {
		p, start := w.pods[busy(w).endpoints[0].addr.Addr()], time.Now()
		w.until(10*time.Minute, func() bool {
			p.dead = int(time.Since(start)/(4*time.Second))%2 == 1
			return false
		})
		if w.changes < 4 || w.changes > 28 {
			w.t.Errorf("%d changes in ten minutes", w.changes)
		}
	})
}

// TestNamespaceCannotUseUpProbes has a namespace with 300 endpoints that die, and another one.
func TestNamespaceCannotUseUpProbes(t *testing.T) {
	every(t, func(w *world) {
		quiet := busy(w)
		loud := w.serve("loud", "loud", w.protocol, 300)
		for i := range 5 {
			w.use(fmt.Sprint("a", i), loud, 50*time.Millisecond)
		}
		w.pass(2 * time.Minute) // until most are known
		for _, e := range loud.endpoints[100:] {
			w.pods[e.addr.Addr()].dead = true
		}
		w.pass(3 * time.Second)
		before, start := w.probes, time.Now()
		w.kill(quiet, quiet.endpoints[1])
		w.pass(20 * time.Second)
		if n, most := w.probes-before, (probesPerSecond+routinesPerSecond)*int(time.Since(start).Seconds()+1)+probeBurst; n > most {
			w.t.Errorf("%d probes, want at most %d", n, most)
		}
		if n := len(w.events); n > 50 {
			w.t.Errorf("%d events", n)
		}
	})
}

// TestMassStartIsPaced has 20 Services with 100 endpoints each that come into use together.
func TestMassStartIsPaced(t *testing.T) {
	run(t, model.IPv4, model.TCP, func(w *world) {
		for i := range 20 {
			s := w.serve(fmt.Sprint("namespace-", i), fmt.Sprint("web-", i), w.protocol, 100)
			w.use(fmt.Sprint("c", i), s, 100*time.Millisecond)
		}
		w.pass(20 * time.Second)
		if n, most := w.probes, routineBurst+20*routinesPerSecond; n > most || n < most-20 {
			w.t.Errorf("%d probes in 20 s, want at most %d, and nearly so many", n, most)
		}
		if n := len(w.tracker.checks.all); n != 2000 {
			w.t.Errorf("%d endpoints are remembered", n)
		}
	})
}

// TestRewrittenSlicesLeaveNothingBehind replaces the endpoints of a Service many times.
func TestRewrittenSlicesLeaveNothingBehind(t *testing.T) {
	every(t, func(w *world) {
		s := busy(w)
		for i := range 20 {
			for k := range s.endpoints {
				a := w.addr(100+i, 1+k)
				s.endpoints[k].addr = netip.AddrPortFrom(a, 8080)
				w.pods[a] = &pod{}
			}
			w.commit(s)
			w.pass(3 * time.Second)
		}
		w.pass(20 * time.Second)
		if n := len(w.tracker.checks.all); n != 3 || w.tracker.checks.of["default"] != 3 {
			w.t.Errorf("%d endpoints are remembered, %v", n, w.tracker.checks.of)
		}
		s.mode = 0 // off
		w.commit(s)
		if n := len(w.tracker.checks.all); n != 0 || len(w.tracker.checks.of) != 0 || len(w.tracker.pools.all) != 0 {
			w.t.Errorf("%d endpoints are remembered without checks", n)
		}
	})
}

// TestEndpointsOfANamespaceAreBounded has a Service with more endpoints than are remembered.
func TestEndpointsOfANamespaceAreBounded(t *testing.T) {
	run(t, model.IPv4, model.UDP, func(w *world) {
		s := w.serve("default", "web", w.protocol, maxOfNamespace+50)
		c := w.use("l", s, time.Hour)
		for _, e := range s.endpoints {
			w.connect(c, "l", e)
		}
		w.pass(5 * time.Second)
		if n := len(w.tracker.checks.all); n != maxOfNamespace {
			w.t.Errorf("%d endpoints are remembered", n)
		}
	})
}

// TestNamespacesShareTheEndpoints has ten namespaces that fill the memory, and another one.
func TestNamespacesShareTheEndpoints(t *testing.T) {
	s, addr := newChecks(), netip.MustParseAddr("10.244.1.2")
	use := func(namespace string, n int) bool {
		addr = addr.Next()
		p := &pool{service: sync.Object{Namespace: namespace}}
		return s.use(endpoint{model.TCP, netip.AddrPortFrom(addr, uint16(n))}, p) != nil
	}
	for n := range maxChecks {
		use(fmt.Sprint(n%10), n)
	}
	for n := range 2 * maxOfNamespace {
		if got, want := use("other", n), n < maxChecks/11; got != want {
			t.Fatalf("endpoint %d of another namespace is known: %t, want %t", n, got, want)
		}
	}
	if len(s.all) != maxChecks {
		t.Errorf("%d endpoints are known", len(s.all))
	}
}

func TestRemovedEndpointIsForgotten(t *testing.T) {
	every(t, func(w *world) {
		s := busy(w)
		w.kill(s, s.endpoints[0])
		s.endpoints = s.endpoints[1:]
		w.commit(s)
		if n := len(w.received[s.key]); n != 0 {
			w.t.Errorf("%d are unresponsive", n)
		}
		if r := w.report(); len(r.Endpoints) > 0 {
			w.t.Errorf("report %+v", r)
		}
	})
}

// TestEndpointRemovedForAMoment takes an unresponsive endpoint from a Service and gives it back
// before the tracker sees that. The loop has forgotten it, and learns it again.
func TestEndpointRemovedForAMoment(t *testing.T) {
	every(t, func(w *world) {
		s := busy(w)
		w.kill(s, s.endpoints[0])
		all := s.endpoints
		s.endpoints = all[1:]
		w.follow(s)
		s.endpoints = all
		w.commit(s)
		w.until(3*time.Second, func() bool { return len(w.received[s.key]) == 1 })
		if n := len(w.received[s.key]); n != 1 || w.changes != 2 {
			w.t.Errorf("%d are unresponsive after %d changes, want the same again", n, w.changes)
		}
	})
}

// TestEndpointIsAvoidedAgainWhenAllIsCommitted is about an endpoint that was removed for a moment
// while the kernel took nothing: the loop forgot it and the tracker saw nothing.
func TestEndpointIsAvoidedAgainWhenAllIsCommitted(t *testing.T) {
	every(t, func(w *world) {
		s := busy(w)
		w.kill(s, s.endpoints[0])
		delete(w.received, s.key)
		c := s.committed()
		c.Full = true
		w.tracker.Follow(c)
		w.wait(0)
		if n := len(w.received[s.key]); n != 1 {
			w.t.Errorf("%d are unresponsive, want 1", n)
		}
	})
}

// TestServiceGetsUnresponsiveEndpoint adds an unresponsive endpoint to another Service, which no
// client uses. With its first reply both use it again.
func TestServiceGetsUnresponsiveEndpoint(t *testing.T) {
	every(t, func(w *world) {
		first, second := busy(w), w.serve("default", "second", w.protocol, 3)
		shared := first.endpoints[0]
		avoided := func(s *service) bool { return slices.Contains(w.received[s.key], shared.addr) }
		w.kill(first, shared)
		second.endpoints = append(second.endpoints, shared)
		w.commit(second)
		// Controls of the second one are chosen at random.
		w.until(time.Minute, func() bool { return avoided(second) })
		if !avoided(first) || !avoided(second) {
			w.t.Errorf("avoided %v", w.received)
		}
		w.pods[shared.addr.Addr()].dead = false
		if w.pass(probePeriod + time.Second); avoided(first) || avoided(second) {
			w.t.Errorf("avoided although it replies: %v", w.received)
		}
	})
}

// TestLittleIsReadWhileNothingWaits measures what readings and probes cost while all is well.
func TestLittleIsReadWhileNothingWaits(t *testing.T) {
	every(t, func(w *world) {
		w.readCost = 10 * time.Millisecond
		s := busy(w)
		cpu, probes := w.cpu, w.probes
		w.pass(1000 * time.Second)
		if used := w.cpu - cpu; used > 1000*time.Second/1200 {
			w.t.Errorf("readings took %s in 1000 s", used)
		}
		if n := w.probes - probes; n > 6 {
			w.t.Errorf("%d probes of 3 endpoints in 1000 s", n)
		}
		s.mode = 0 // off
		w.commit(s)
		before := w.reads
		if w.pass(time.Minute); w.reads != before {
			w.t.Errorf("%d readings although no Service has passive health checks", w.reads-before)
		}
	})
}

// TestModeOfServiceChanges has an unresponsive endpoint when its Service changes from report to
// avoid.
func TestModeOfServiceChanges(t *testing.T) {
	every(t, func(w *world) {
		s := busy(w)
		s.mode = model.PassiveChecksReport
		w.commit(s)
		w.clients["l"].every = time.Hour
		before := w.polls
		if w.pass(20 * time.Second); w.polls-before > 11 {
			w.t.Errorf("woke up %d times in 20 s", w.polls-before)
		}
		w.clients["l"].every, w.clients["l"].next = 100*time.Millisecond, time.Now()
		w.pods[s.endpoints[0].addr.Addr()].dead = true
		w.until(6*time.Second, func() bool { return len(w.events) > 0 })
		if len(w.events) != 1 || w.changes > 0 {
			w.t.Errorf("events %v, %d changes with report", w.events, w.changes)
		}
		s.mode = model.PassiveChecksAvoid
		w.commit(s)
		w.pass(2 * time.Second)
		if want := []netip.AddrPort{s.endpoints[0].addr}; !slices.Equal(w.received[s.key], want) {
			w.t.Errorf("received %v, want %v", w.received[s.key], want)
		}
	})
}

// TestPoolThatReturnsAvoidsNothing has a Service lose its ClusterIP and get it again, while the
// loop remembers that an endpoint was unresponsive.
func TestPoolThatReturnsAvoidsNothing(t *testing.T) {
	every(t, func(w *world) {
		s := busy(w)
		first := s.endpoints[0].addr
		pool := &model.Pool{Key: s.key, PassiveChecks: s.mode, Avoided: []netip.AddrPort{first}}
		w.received[s.key] = pool.Avoided
		w.tracker.Follow(sync.Committed{Removed: []model.Match{s.key}})
		w.tracker.Follow(sync.Committed{Set: []model.Frontend{{Match: s.key, Service: s.name, Pool: pool}}})
		w.wait(0)
		if len(w.received[s.key]) > 0 || w.changes != 1 {
			w.t.Errorf("%d changes, unresponsive %v", w.changes, w.received[s.key])
		}
	})
}

// TestConnectionsToAllFrontendsCount has clients of a node port and of an external IP, which an entry
// of connection tracking has as its original destination.
func TestConnectionsToAllFrontendsCount(t *testing.T) {
	every(t, func(w *world) {
		s := w.serve("default", "web", w.protocol, 3)
		node, external := w.addr(40_000, 1), w.addr(40_000, 2)
		for to, m := range map[netip.AddrPort]model.Match{
			netip.AddrPortFrom(node, 30080):    {Port: 30080, Family: w.family, Protocol: w.protocol},
			netip.AddrPortFrom(external, 8000): {Addr: external, Port: 8000, Family: w.family, Protocol: w.protocol},
		} {
			c := s.committed()
			c.NodeAddrs = []netip.Addr{node}
			c.Set = append(c.Set, model.Frontend{Match: m, Kind: model.KindExternalIP, Service: s.name, Pool: c.Set[0].Pool})
			w.tracker.Follow(c)
			if w.wait(0); w.tracker.pools.find(w.protocol, to) != w.tracker.pools.all[s.key] {
				w.t.Errorf("%s has no pool", to)
			}
			if w.tracker.pools.find(w.protocol, netip.AddrPortFrom(to.Addr(), 1)) != nil {
				w.t.Errorf("another port of %s has a pool", to.Addr())
			}
		}
	})
}

// TestForeignServicesLeaveRoomForOthers has a namespace name the endpoints of another one in as many
// Services as an endpoint may have, before its own Service is used.
func TestForeignServicesLeaveRoomForOthers(t *testing.T) {
	every(t, func(w *world) {
		s := w.serve("default", "web", w.protocol, 3)
		for i := range maxPools {
			name := fmt.Sprint("foreign", i)
			foreign := w.serve("foreign", name, w.protocol, 0)
			foreign.endpoints = s.endpoints
			w.commit(foreign)
			w.use(name, foreign, 2*time.Second)
		}
		w.pass(20 * time.Second)
		w.use("l", s, 100*time.Millisecond)
		w.pass(20 * time.Second)
		w.kill(s, s.endpoints[1])
	})
}

// TestFloodOfOneKindDelaysNoOther has a namespace with an endpoint that gets no packets and many
// one-way flows, which are read to decide about it. Flows of another kind have processor time of
// their own.
func TestFloodOfOneKindDelaysNoOther(t *testing.T) {
	run(t, model.IPv4, model.TCP, func(w *world) {
		s, noise := busy(w), w.serve("noise", "noise", model.UDP, 1)
		w.use("n", noise, time.Second)
		w.pass(10 * time.Second)
		w.pods[noise.endpoints[0].addr.Addr()].dead = true
		w.costOfEntry = 50 * time.Microsecond
		flood := w.use("f", noise, time.Hour)
		for range 4 {
			for range 10_000 {
				w.connect(flood, "f", noise.endpoints[0])
			}
			w.pass(10 * time.Second)
		}
		w.kill(s, s.endpoints[1])
	})
}

// TestFirstReadingLeavesTheBudget has so many connections that to list those with a reply takes 0.4 of what
// may be read at one time. One has no reply at the start, and an endpoint dies soon after. Over
// UDP, which has no counter of retransmissions, no connection may be read that often.
func TestFirstReadingLeavesTheBudget(t *testing.T) {
	every(t, func(w *world) {
		if w.protocol == model.UDP {
			return
		}
		s := w.serve("default", "web", w.protocol, 3)
		c := w.use("l", s, 100*time.Millisecond)
		w.pass(time.Second)
		c.lowTTL, w.answeredCost = true, 400*time.Millisecond
		w.connect(c, "l", s.endpoints[1])
		c.lowTTL = false
		w.pass(5 * time.Second)
		w.kill(s, s.endpoints[0])
	})
}

// TestFullTableLeavesNoOldProbes has two endpoints lose probes while the table is full. Afterwards both
// reply.
func TestFullTableLeavesNoOldProbes(t *testing.T) {
	every(t, func(w *world) {
		s := busy(w)
		c := w.clients["l"]
		c.every, w.full = 5*time.Second, true
		for _, e := range s.endpoints[:2] {
			w.pods[e.addr.Addr()].lossyUntil = time.Now().Add(3 * time.Second)
		}
		c.lowTTL = true
		w.connect(c, "l", s.endpoints[1])
		c.lowTTL = false
		w.pass(20 * time.Second)
		w.full = false
		if w.pass(20 * time.Second); len(w.ever) > 0 || len(w.events) > 0 {
			w.t.Errorf("unresponsive %v, events %v", w.ever, w.events)
		}
	})
}

// TestVerdictEndsWithTheLastControl takes an unresponsive endpoint from the Service that has others. In
// the other Service it is the only one.
func TestVerdictEndsWithTheLastControl(t *testing.T) {
	every(t, func(w *world) {
		s, single := busy(w), w.serve("default", "single", w.protocol, 0)
		single.endpoints = s.endpoints[:1]
		w.commit(single)
		w.use("o", single, time.Second)
		w.pass(20 * time.Second)
		w.kill(s, s.endpoints[0])
		s.endpoints = s.endpoints[1:]
		w.commit(s)
		w.pass(30 * time.Second)
		if list := w.report().Endpoints; len(list) != 1 || !list[0].Possibly || len(list[0].Services) != 1 {
			w.t.Errorf("report %+v, want one that is possibly unresponsive", list)
		}
	})
}

// TestPolicyOfOneEndpoint has a policy begin to drop probes of one of a Service's endpoints only,
// such as a policy of one of two Deployments, or a firewall of one node. Its clients are served.
func TestPolicyOfOneEndpoint(t *testing.T) {
	for _, every := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second} {
		run(t, model.IPv4, model.TCP, func(w *world) {
			s := w.serve("default", "web", w.protocol, 4)
			w.use("l", s, every)
			w.pass(time.Minute)
			w.pods[s.endpoints[1].addr.Addr()].noProbes = true
			if w.pass(10 * time.Minute); len(w.ever) > 0 || len(w.events) > 0 {
				t.Errorf("a connection every %s: unresponsive %v, events %v", every, w.ever, w.events)
			}
		})
	}
}

// TestAnsweredConnectionEndsVerdict has an endpoint that dies and lives again; its probes are
// dropped then. Its Service only reports, and clients go on using it.
func TestAnsweredConnectionEndsVerdict(t *testing.T) {
	every(t, func(w *world) {
		s := busy(w)
		s.mode = model.PassiveChecksReport
		w.commit(s)
		p := w.pods[s.endpoints[1].addr.Addr()]
		p.dead, p.noProbes = true, true
		w.pass(10 * time.Second)
		if list := w.report().Endpoints; len(list) != 1 || list[0].Possibly {
			w.t.Errorf("report %+v, want one", list)
		}
		p.dead = false
		if w.pass(15 * time.Second); len(w.report().Endpoints) > 0 || len(w.events) != 2 {
			w.t.Errorf("then report %+v, events %v", w.report(), w.events)
		}
	})
}

// TestSpoofedClientsHideNoWitness has clients of many addresses without a reply in another namespace.
func TestSpoofedClientsHideNoWitness(t *testing.T) {
	run(t, model.IPv4, model.TCP, func(w *world) {
		s, other := busy(w), w.serve("other", "other", w.protocol, 200)
		w.pods[s.endpoints[1].addr.Addr()].dead = true
		w.costOfEntry = time.Microsecond
		for i := range 18_000 {
			c := &client{addr: w.addr(40_000+i/200, 1+i%200), service: other, lowTTL: true}
			w.connect(c, "", other.endpoints[i%200])
		}
		w.kill(s, s.endpoints[1])
	})
}

// TestBackgroundWorkTakesATenth adds up what all background work of a node takes of a processor: the
// readings of these checks, and all with a throttle of the budget. Collecting their garbage is a fifth.
func TestBackgroundWorkTakesATenth(t *testing.T) {
	parts := 1.0 / throttle.BudgetParts
	for k := range New(Config{}).lanes {
		parts += readsPerSecond/1e6 + 1.0/idleFactor
		if k.protocol == model.UDP {
			parts += 1.0 / idleFactor
		}
	}
	if parts *= 1.2; parts > 0.1 {
		t.Errorf("background work takes %.4f of a processor", parts)
	}
}
