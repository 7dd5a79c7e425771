package passivehealth

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/listen/listentest"
)

func address(format string, parts ...any) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf(format, parts...))
}

// traffic returns a function that opens a connection to each endpoint and reports whether to go
// on, which is as long as done is false.
func (w *world) traffic(done func() bool, services ...*service) func() bool {
	return func() bool {
		for _, s := range services {
			for _, e := range s.endpoints {
				if !slices.Contains(w.received[s.key], e.addr) {
					w.connect(e)
				}
			}
		}
		return !done()
	}
}

// TestDeadEndpointIsFoundWithinThreeSeconds has one of three endpoints stop to answer, and answer
// again.
func TestDeadEndpointIsFoundWithinThreeSeconds(t *testing.T) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			run(t, func(w *world) {
				s := w.serve(f, p, "default", 0)
				w.every(100*time.Millisecond, 3*time.Second, w.traffic(func() bool { return false }, s))
				if len(w.received) > 0 || len(w.events) > 0 {
					t.Errorf("%s, %s: %v, %v while all answer", f, p, w.received, w.events)
				}
				gone := s.endpoints[1]
				w.dead[gone.addr.Addr()] = true
				found := func() bool { return slices.Equal(w.received[s.key], []netip.AddrPort{gone.addr}) }
				if took := w.every(100*time.Millisecond, time.Minute, w.traffic(found, s)); took > 3*time.Second {
					t.Errorf("%s, %s: found after %s, sent %v", f, p, took, w.received)
				}
				w.every(100*time.Millisecond, 20*time.Second, w.traffic(func() bool { return false }, s))
				if !found() || w.changes != 1 {
					t.Errorf("%s, %s: %d changes, %v while it is dead", f, p, w.changes, w.received)
				}
				delete(w.dead, gone.addr.Addr())
				used := func() bool { return len(w.received[s.key]) == 0 }
				if took := w.every(100*time.Millisecond, time.Minute, w.traffic(used, s)); took > 2*time.Second {
					t.Errorf("%s, %s: used again after %s", f, p, took)
				}
				if want := []string{ReasonNotAnswering, ReasonAnswers}; !slices.Equal(w.events, want) {
					t.Errorf("%s, %s: events %v, want %v", f, p, w.events, want)
				}
			})
		}
	}
}

// TestNothingElseIsUnresponsive has connections that get no answer for other reasons than an endpoint
// that does not answer.
func TestNothingElseIsUnresponsive(t *testing.T) {
	never := func() bool { return false }
	for name, test := range map[string]func(*world, *service) func() bool{
		"a policy drops one client": func(w *world, s *service) func() bool {
			others := w.traffic(never, s)
			return func() bool { w.forge(s.endpoints[0]); return others() }
		},
		"forged packets": func(w *world, s *service) func() bool {
			return func() bool { w.forge(s.endpoints[0]); w.forge(s.endpoints[1]); return true }
		},
		"endpoints that take 900 ms": func(w *world, s *service) func() bool {
			w.slow = 900 * time.Millisecond
			return w.traffic(never, s)
		},
		"a policy drops questions and one client": func(w *world, s *service) func() bool {
			others := w.traffic(never, s)
			w.mute[s.endpoints[0].addr.Addr()] = true
			return func() bool { w.forge(s.endpoints[0]); return others() }
		},
		"a full table": func(w *world, s *service) func() bool {
			w.full, w.dead[s.endpoints[0].addr.Addr()] = true, true
			return w.traffic(never, s)
		},
		"this node is cut off": func(w *world, s *service) func() bool {
			for _, e := range s.endpoints {
				w.dead[e.addr.Addr()] = true
			}
			for _, kubelet := range w.nodes {
				w.dead[kubelet.Addr()] = true
			}
			return w.traffic(never, s)
		},
		"this node is cut off, also from the API server": func(w *world, s *service) func() bool {
			for _, e := range s.endpoints {
				w.dead[e.addr.Addr()] = true
			}
			clear(w.nodes) // where kubelets listen is not known
			return w.traffic(never, s)
		},
	} {
		for _, f := range model.Families {
			for _, p := range model.Protocols {
				t.Run(fmt.Sprintf("%s, %s, %s", name, f, p), func(t *testing.T) {
					run(t, func(w *world) {
						s := w.serve(f, p, "default", 0)
						w.every(100*time.Millisecond, 3*time.Second, w.traffic(never, s))
						w.every(100*time.Millisecond, time.Minute, test(w, s))
						if len(w.received) > 0 {
							t.Errorf("unresponsive: %v", w.received)
						}
					})
				})
			}
		}
	}
}

// TestOnlyUDPIsOneWay has endpoints that have never sent anything: TCP and SCTP begin with a
// handshake.
func TestOnlyUDPIsOneWay(t *testing.T) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			run(t, func(w *world) {
				s := w.serve(f, p, "default", 0)
				w.mute[s.endpoints[0].addr.Addr()] = true
				w.every(100*time.Millisecond, time.Minute, func() bool { w.forge(s.endpoints[0]); return true })
				if found := len(w.received) > 0; found != (p != model.UDP) {
					t.Errorf("%s, %s: unresponsive: %v", f, p, w.received)
				}
			})
		}
	}
}

// TestDeadNodeLosesAllEndpointsTogether has connections to two of ten Services with an endpoint
// on a node that dies.
func TestDeadNodeLosesAllEndpointsTogether(t *testing.T) {
	for _, f := range model.Families {
		run(t, func(w *world) {
			var all []*service
			for i := range 10 {
				all = append(all, w.serve(f, model.Protocols[i%3], "default", i))
			}
			busy := []*service{all[0], all[3]} // of TCP
			w.every(100*time.Millisecond, 3*time.Second, w.traffic(func() bool { return false }, busy...))
			w.dead[w.nodes["n2"].Addr()] = true
			for a, name := range w.nodeOf {
				w.dead[a] = w.dead[a] || name == "n2"
			}
			found := func() bool {
				return !slices.ContainsFunc(all, func(s *service) bool { return len(w.received[s.key]) != 1 })
			}
			took := w.every(100*time.Millisecond, time.Minute, w.traffic(found, busy...))
			if took > 3*time.Second {
				t.Errorf("%s: found after %s: %v", f, took, w.received)
			}
			if r := w.report(); len(r.Nodes) != 1 || r.Nodes[0].Name != "n2" || len(r.Nodes[0].Endpoints) != 10 {
				t.Errorf("%s: report %+v", f, r)
			}
			clear(w.dead)
			used := func() bool {
				return !slices.ContainsFunc(all, func(s *service) bool { return len(w.received[s.key]) > 0 })
			}
			if took := w.every(100*time.Millisecond, time.Minute, w.traffic(used, busy...)); took > 2*time.Second {
				t.Errorf("%s: used again after %s: %v", f, took, w.received)
			}
		})
	}
}

// TestRemovedNodeIsForgotten removes a node that does not answer, and gives the address of one of its
// endpoints to a pod of another node.
func TestRemovedNodeIsForgotten(t *testing.T) {
	run(t, func(w *world) {
		all := []*service{w.serve(model.IPv4, model.TCP, "default", 0), w.serve(model.IPv4, model.TCP, "default", 1)}
		moved := all[0].endpoints[2]
		w.dead[w.nodes["n2"].Addr()], w.dead[moved.addr.Addr()], w.dead[all[1].endpoints[2].addr.Addr()] = true, true, true
		w.every(100*time.Millisecond, 10*time.Second, w.traffic(func() bool { return len(w.report().Nodes) > 0 }, all...))
		for _, s := range all {
			delete(w.nodeOf, s.endpoints[2].addr.Addr())
			s.endpoints = s.endpoints[:2:2]
			w.commit(s)
		}
		gone := func() bool { return len(w.report().Nodes) == 0 }
		if took := w.every(time.Second, time.Minute, w.traffic(gone, all...)); took > longAskPeriod+time.Second {
			t.Errorf("forgotten after %s: %+v", took, w.report())
		}
		delete(w.dead, moved.addr.Addr())
		w.nodeOf[moved.addr.Addr()] = "n0"
		all[0].endpoints = append(all[0].endpoints, moved)
		w.commit(all[0])
		w.wait(time.Second)
		if n := len(w.received[all[0].key]); n > 0 {
			t.Errorf("%d endpoints of other nodes are unresponsive", n)
		}
	})
}

// TestNodeThatCannotBeAskedLosesNoOtherEndpoint has connections to two of three Services with an
// endpoint on a node that dies, whose kubelet is not known or drops questions.
func TestNodeThatCannotBeAskedLosesNoOtherEndpoint(t *testing.T) {
	for _, known := range []bool{false, true} {
		run(t, func(w *world) {
			first, second := w.serve(model.IPv4, model.TCP, "default", 0), w.serve(model.IPv6, model.TCP, "default", 1)
			idle := w.serve(model.IPv4, model.TCP, "default", 2)
			w.denied[w.nodes["n2"].Addr()] = true
			if !known {
				delete(w.nodes, "n2")
			}
			for a, name := range w.nodeOf {
				w.dead[a] = name == "n2"
			}
			w.every(100*time.Millisecond, 10*time.Second, w.traffic(func() bool { return false }, first, second))
			if len(w.received[first.key]) != 1 || len(w.received[second.key]) != 1 || len(w.received[idle.key]) != 0 {
				t.Errorf("kubelet known %t: unresponsive %v", known, w.received)
			}
		})
	}
}

func TestFailedReadsAreLoggedOnceAndChangeNothing(t *testing.T) {
	run(t, func(w *world) {
		s := w.serve(model.IPv6, model.TCP, "default", 0)
		w.failure, w.dead[s.endpoints[0].addr.Addr()] = errors.New("interrupted"), true
		never := func() bool { return false }
		w.every(100*time.Millisecond, 10*time.Second, w.traffic(never, s))
		if len(w.received) > 0 || strings.Count(w.log.String(), "interrupted") != 1 {
			t.Errorf("unresponsive %v, log:\n%s", w.received, &w.log)
		}
		w.failure = nil
		w.every(100*time.Millisecond, 10*time.Second, w.traffic(never, s))
		if len(w.received[s.key]) != 1 || strings.Count(w.log.String(), "read again") != 1 {
			t.Errorf("then unresponsive %v, log:\n%s", w.received, &w.log)
		}
	})
}

// TestConnectTellsAnswersFromSilence asks a port that listens, one that does not, and, as no
// address of a test is silent, one without the time for an answer.
func TestConnectTellsAnswersFromSilence(t *testing.T) {
	for _, a := range listentest.Loopback {
		l, err := listentest.Listen(t, netip.AddrPortFrom(a, 0))
		if err != nil {
			t.Fatal(err)
		}
		to := l.Addr().(*net.TCPAddr).AddrPort()
		if err := Connect(t.Context(), to, time.Minute); outcomeOf(err) != outcomeAnswer {
			t.Errorf("%s: %v", to, err)
		}
		l.Close()
		if err := Connect(t.Context(), to, time.Minute); outcomeOf(err) != outcomeAnswer {
			t.Errorf("%s, closed: %v", to, err)
		}
		if err := Connect(t.Context(), to, 0); outcomeOf(err) != outcomeSilence {
			t.Errorf("%s, without time: %v", to, err)
		}
	}
}

// TestFlappingEndpointChangesLessAndLess has an endpoint that is dead every other two seconds.
func TestFlappingEndpointChangesLessAndLess(t *testing.T) {
	run(t, func(w *world) {
		s := w.serve(model.IPv4, model.TCP, "default", 0)
		flapping := s.endpoints[0].addr.Addr()
		start, more := time.Now(), w.traffic(func() bool { return false }, s)
		w.every(100*time.Millisecond, 10*time.Minute, func() bool {
			w.dead[flapping] = int(time.Since(start)/(4*time.Second))%2 == 1
			return more()
		})
		if w.changes < 4 || w.changes > 20 {
			t.Errorf("%d changes in ten minutes", w.changes)
		}
	})
}

// TestNamespaceCannotUseUpQuestions has a namespace with connections to 300 endpoints that do not
// answer, and another with one, beside a large table of connection tracking.
func TestNamespaceCannotUseUpQuestions(t *testing.T) {
	run(t, func(w *world) {
		w.readCost = 20 * time.Millisecond
		for i := range 100 {
			s := w.serve(model.IPv4, model.TCP, "loud", 1+i)
			for _, e := range s.endpoints {
				w.refuses[e] = true
				w.forge(e)
			}
		}
		w.every(time.Second, 10*time.Second, func() bool { return true })
		s := w.serve(model.IPv4, model.TCP, "quiet", 0)
		w.refuses[s.endpoints[0]] = true
		start := len(w.asked)
		found := func() bool { return len(w.received[s.key]) == 1 }
		if took := w.every(100*time.Millisecond, time.Minute, w.traffic(found, s)); took > 3*time.Second {
			t.Errorf("found after %s, of %d asked", took, start)
		}
		questions := 0
		for _, n := range w.asked {
			questions += n
		}
		if most := 16 * (questionsPerSecond + 2*nodeSample); questions > most {
			t.Errorf("%d questions in 14 s, want at most %d", questions, most)
		}
		if n := len(w.events); n > 25 {
			t.Errorf("%d events in 14 s", n)
		}
		w.every(time.Second, 10*time.Minute, func() bool { return true })
		if most := (600*readsPerSecond*11/10 + readBurst) / 20_000; w.reads > most {
			t.Errorf("%d reads of 20 ms in ten minutes, want at most %d", w.reads, most)
		}
	})
}

// TestRetriedEndpointIsFoundAgainSoon has clients that never stop sending to an endpoint that does
// not answer, beside a large table of connection tracking. If that is so large that the budget does
// not suffice, the endpoint is used again nevertheless.
func TestRetriedEndpointIsFoundAgainSoon(t *testing.T) {
	for _, cost := range []time.Duration{time.Millisecond, 200 * time.Millisecond, 600 * time.Millisecond} {
		for _, p := range model.Protocols {
			t.Run(cost.String()+" "+p.String(), func(t *testing.T) { run(t, func(w *world) { w.retry(p, cost) }) })
		}
	}
}

// retry checks for ten minutes how often and for how long the endpoint is used. It has answered
// once, which connection tracking forgets.
func (w *world) retry(p model.Protocol, readCost time.Duration) {
	w.readCost = readCost
	s := w.serve(model.IPv4, p, "default", 0)
	const step = 100 * time.Millisecond
	w.connect(s.endpoints[0])
	w.wait(step)
	w.refuses[s.endpoints[0]], w.mute[s.endpoints[0].addr.Addr()] = true, true
	w.connect(s.endpoints[0])
	time.AfterFunc(30*time.Second, func() { defer w.lock()(); w.entries = w.entries[1:] })
	used := time.Duration(0)
	w.every(step, 10*time.Minute, func() bool {
		w.counter++
		if len(w.received[s.key]) == 0 {
			used += step
		}
		return true
	})
	found, most := (w.changes+1)/2, 3*time.Second
	for i := range found - 1 {
		most += minCalm<<i + 3*time.Second
	}
	suffices := 4*readCost < readBurst*time.Microsecond
	if w.changes < 2 || suffices && (used > most || found < 2) {
		w.t.Errorf("found %d times, used for %s, want at most %s", found, used, most)
	}
}

// TestEndpointThatIsGoneIsForgotten replaces an endpoint that does not answer.
func TestEndpointThatIsGoneIsForgotten(t *testing.T) {
	run(t, func(w *world) {
		s := w.serve(model.IPv4, model.TCP, "default", 0)
		w.dead[s.endpoints[0].addr.Addr()] = true
		w.every(100*time.Millisecond, 5*time.Second, w.traffic(func() bool { return len(w.received[s.key]) == 1 }, s))
		s.endpoints = s.endpoints[1:]
		w.commit(s)
		if n := len(w.received[s.key]); n != 0 {
			t.Errorf("%d are unresponsive", n)
		}
		if r := w.report(); len(r.Endpoints) > 0 {
			t.Errorf("report %+v", r)
		}
	})
}

// TestEndpointThatIsGoneForAMomentIsAvoidedAgain takes an endpoint that does not answer from a Service
// and gives it back before the tracker sees that: the loop has forgotten it.
func TestEndpointThatIsGoneForAMomentIsAvoidedAgain(t *testing.T) {
	run(t, func(w *world) {
		s := w.serve(model.IPv4, model.TCP, "default", 0)
		w.dead[s.endpoints[0].addr.Addr()] = true
		w.every(100*time.Millisecond, 5*time.Second, w.traffic(func() bool { return len(w.received[s.key]) == 1 }, s))
		all := s.endpoints
		s.endpoints = all[1:]
		w.follow(s)
		s.endpoints = all
		w.commit(s)
		if n := len(w.received[s.key]); n != 1 || w.changes != 2 {
			t.Errorf("%d are unresponsive after %d changes, want the same again", n, w.changes)
		}
	})
}

// TestEndpointIsAvoidedAgainWhenAllIsCommitted is about an endpoint that was gone for a moment in
// which the kernel took nothing, so that the loop forgot it and the tracker saw nothing.
func TestEndpointIsAvoidedAgainWhenAllIsCommitted(t *testing.T) {
	run(t, func(w *world) {
		s := w.serve(model.IPv4, model.TCP, "default", 0)
		w.dead[s.endpoints[0].addr.Addr()] = true
		w.every(100*time.Millisecond, 5*time.Second, w.traffic(func() bool { return len(w.received[s.key]) == 1 }, s))
		delete(w.received, s.key)
		c := s.committed()
		c.Full = true
		w.tracker.Follow(c)
		w.wait(0)
		if n := len(w.received[s.key]); n != 1 {
			t.Errorf("%d are unresponsive, want 1", n)
		}
	})
}

// TestServiceGetsUnresponsiveEndpoint adds an endpoint that does not answer to another Service, when no
// connection to it is tracked any more. With its first answer both use it again.
func TestServiceGetsUnresponsiveEndpoint(t *testing.T) {
	run(t, func(w *world) {
		first, second := w.serve(model.IPv4, model.TCP, "default", 0), w.serve(model.IPv4, model.TCP, "default", 1)
		shared := first.endpoints[0]
		avoided := func(s *service) bool { return slices.Contains(w.received[s.key], shared.addr) }
		w.dead[shared.addr.Addr()] = true
		w.every(100*time.Millisecond, 5*time.Second, w.traffic(func() bool { return avoided(first) }, first))
		w.wait(time.Second)
		w.entries = nil
		second.endpoints = append(second.endpoints, shared)
		w.commit(second)
		if !avoided(first) || !avoided(second) {
			t.Errorf("avoided %v", w.received)
		}
		delete(w.dead, shared.addr.Addr())
		w.wait(askPeriod + time.Second)
		if avoided(first) || avoided(second) {
			t.Errorf("avoided although it answers: %v", w.received)
		}
	})
}

// TestNothingIsReadWhileNothingWaits counts how often connection tracking is read.
func TestNothingIsReadWhileNothingWaits(t *testing.T) {
	run(t, func(w *world) {
		s := w.serve(model.IPv4, model.TCP, "default", 0)
		w.readCost = 10 * time.Millisecond
		w.every(100*time.Millisecond, 100*time.Second, w.traffic(func() bool { return false }, s))
		if w.reads > 5 {
			t.Errorf("%d reads of 10 ms in 100 s", w.reads)
		}
		s.mode = 0 // off
		w.commit(s)
		before := w.reads
		w.wait(time.Minute)
		if w.reads != before {
			t.Errorf("%d reads although no Service has passive health checks", w.reads-before)
		}
	})
}

// TestModeOfServiceChanges has an endpoint that does not answer when its Service changes from
// report to avoid.
func TestModeOfServiceChanges(t *testing.T) {
	run(t, func(w *world) {
		s := w.serve(model.IPv4, model.TCP, "default", 0)
		s.mode = model.PassiveChecksReport
		w.commit(s)
		if w.wait(20 * time.Second); w.polls > 11 {
			t.Errorf("woke up %d times in 20 s", w.polls)
		}
		w.dead[s.endpoints[0].addr.Addr()] = true
		w.every(100*time.Millisecond, 5*time.Second, w.traffic(func() bool { return len(w.events) > 0 }, s))
		if len(w.events) != 1 || w.changes > 0 {
			t.Errorf("events %v, %d changes with report", w.events, w.changes)
		}
		s.mode = model.PassiveChecksAvoid
		w.commit(s)
		if want := []netip.AddrPort{s.endpoints[0].addr}; !slices.Equal(w.received[s.key], want) {
			t.Errorf("received %v, want %v", w.received[s.key], want)
		}
	})
}

// TestPoolThatComesBackAvoidsNothing has a Service lose its ClusterIP and get it again, while the
// loop remembers that an endpoint did not answer.
func TestPoolThatComesBackAvoidsNothing(t *testing.T) {
	run(t, func(w *world) {
		s := w.serve(model.IPv4, model.TCP, "default", 0)
		gone := s.endpoints[0].addr
		pool := &model.Pool{Key: s.key, PassiveChecks: s.mode, Avoided: []netip.AddrPort{gone}}
		w.received[s.key] = pool.Avoided
		w.tracker.Follow(sync.Committed{Gone: []model.Match{s.key}})
		w.tracker.Follow(sync.Committed{Set: []model.Frontend{{Match: s.key, Service: s.name, Pool: pool}}})
		w.wait(0)
		if len(w.received[s.key]) > 0 || w.changes != 1 {
			t.Errorf("%d changes, unresponsive %v", w.changes, w.received[s.key])
		}
	})
}
