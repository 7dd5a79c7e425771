package sync_test

import (
	"strings"
	stdsync "sync"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// A processorRig is a loop whose syncs take a time of the processor that the test chooses.
type processorRig struct {
	*loopRig
	f    model.Family
	mu   stdsync.Mutex
	cost time.Duration
	used time.Duration
	n    byte // addresses so far
}

// everyProcessor runs a test with the Services default/web and other/shop, which are served. The
// start took an hour of the processor, which is not charged.
func everyProcessor(t *testing.T, test func(*processorRig)) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &processorRig{f: f, cost: time.Hour}
				s.loopRig = newRig(t, sync.Config{CPUTime: s.cpuTime})
				s.send(webService("web", 1), s.service("other", 2), s.slice("default"), s.slice("other"))
				s.committed.take()
				test(s)
			})
		})
	}
}

// cpuTime is called before and after each sync.
func (s *processorRig) cpuTime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += s.cost
	return s.used
}

func (s *processorRig) service(namespace string, n byte) sync.SetService {
	web := webService("web", n)
	web.Service.Name.Namespace = namespace
	return web
}

// slice returns the slice of a namespace with an endpoint that it has not had before.
func (s *processorRig) slice(namespace string) sync.SetSlice {
	s.n++
	slice := webSlice(s.f, s.n)
	slice.Slice.Name.Namespace, slice.Slice.Service.Namespace = namespace, namespace
	return slice
}

// change sends events whose sync takes a time, and reports whether they were applied.
func (s *processorRig) change(cost time.Duration, events ...sync.Event) bool {
	s.mu.Lock()
	s.cost = cost
	s.mu.Unlock()
	s.send(events...)
	return s.isApplied()
}

// isApplied reports whether the three ports of a Service were committed since its last call.
func (s *processorRig) isApplied() bool {
	return strings.Contains(s.committed.take(), "set 3 removed 0")
}

func TestOrdinaryChangesNeverWait(t *testing.T) {
	everyProcessor(t, func(s *processorRig) {
		for i := range 1000 { // 50 a second
			if elapse(20 * time.Millisecond); !s.change(time.Millisecond, s.slice("default")) {
				t.Fatalf("change %d waited", i)
			}
		}
		elapse(10 * time.Second)
		for i := range 20 { // a burst
			if !s.change(10*time.Millisecond, s.slice("default")) {
				t.Fatalf("change %d of a burst waited", i)
			}
		}
	})
}

// TestCostlyNamespaceWaitsAndOthersDoNot has ten changes a second that take 99 ms each, and
// alongside them changes of another namespace.
func TestCostlyNamespaceWaitsAndOthersDoNot(t *testing.T) {
	everyProcessor(t, func(s *processorRig) {
		const cost, seconds = 99 * time.Millisecond, 60
		applied := 0
		for i := range 10 * seconds {
			if elapse(50 * time.Millisecond); s.isApplied() {
				applied++
			}
			if s.change(cost, s.slice("default")) {
				applied++
			}
			elapse(50 * time.Millisecond)
			if s.isApplied() {
				applied++
			}
			if !s.change(time.Millisecond/2, s.slice("other")) {
				t.Fatalf("change %d of the other namespace waited", i)
			}
			s.change(cost) // for what is applied meanwhile
		}
		if least := seconds * 8 / 10; applied < least || applied > seconds*11/10+4 {
			t.Errorf("%d changes of 99 ms in %d seconds, want a tenth of a processor", applied, seconds)
		}
	})
}

func TestChangesWaitFiveSecondsAtMost(t *testing.T) {
	everyProcessor(t, func(s *processorRig) {
		if !s.change(time.Hour, s.slice("default")) {
			t.Fatal("the first change waited")
		}
		if s.change(0, s.slice("default")) || !s.last().Postponed {
			t.Error("the next one did not wait")
		}
		if elapse(5*time.Second - 1); s.isApplied() {
			t.Error("it did not wait for five seconds")
		}
		if elapse(1); !s.isApplied() || s.last().Postponed {
			t.Error("it waited for longer than five seconds")
		}
	})
}

// TestDeletionsDoNotWait has a Service that is deleted while its namespace is postponed, and one
// of another namespace that gets its addresses. Before that, a postponed change is reported when
// it was applied: the metric of the time from a change of a pod to the kernel includes the wait.
func TestDeletionsDoNotWait(t *testing.T) {
	everyProcessor(t, func(s *processorRig) {
		s.change(time.Hour, s.slice("default"))
		slice := s.slice("default")
		slice.Triggered = time.Now()
		s.change(0, slice)
		s.send(s.slice("other"))
		if got := s.last().Triggered; len(got) != 0 {
			t.Errorf("reported %v before it was applied", got)
		}
		elapse(5 * time.Second)
		if got := s.last().Triggered; len(got) != 1 {
			t.Errorf("reported %v when it was applied", got)
		}
		s.change(time.Hour, s.slice("default"))
		s.committed.take()
		s.send(sync.DeleteService{Name: model.ServiceName{Namespace: "default", Name: "web"}})
		s.send(s.service("next", 1), s.slice("next"))
		if got, want := s.committed.take(), "set 0 removed 6 at []\nset 6 removed 0 at []"; got != want {
			t.Errorf("deleted, and created elsewhere: %q, want %q", got, want)
		}
	})
}
