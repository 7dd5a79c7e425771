package lab

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	stdsync "sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/model"
)

// Burst is many questions, each over a new connection and from another port, as fast
// as possible: about 8,000 TCP connections or 15,000 UDP exchanges a second on two
// cores, including the servers.
type Burst struct {
	Protocol model.Protocol
	To       netip.AddrPort
	Count    int
	Workers  int           // concurrent questions, each on a thread; at least 1
	Timeout  time.Duration // of each question
}

// Tally is the result of a [Burst].
type Tally struct {
	// Answered counts the answers by the name of the host.
	Answered map[string]int
	// Refused, TimedOut, Unreachable and Reset count the questions without an
	// answer.
	Refused, TimedOut, Unreachable, Reset int
	// Latencies are the latencies of the answered questions, sorted.
	Latencies []time.Duration
	// Took is the total time.
	Took time.Duration
}

// Burst asks all questions from the host. The first error (see [Flow.Ask]) ends the
// burst and is returned.
func (h *Host) Burst(b Burst) (Tally, error) {
	var left atomic.Int64
	left.Store(int64(b.Count))
	t, start := Tally{Answered: map[string]int{}}, time.Now()
	var mu stdsync.Mutex
	var group errgroup.Group
	work := func() error {
		for left.Add(-1) >= 0 {
			answer, err := ask(b.Protocol, netip.AddrPort{}, b.To, b.Timeout)
			if err != nil {
				left.Store(0)
				return err
			}
			mu.Lock()
			t.add(answer)
			mu.Unlock()
		}
		return nil
	}
	for range max(b.Workers, 1) {
		group.Go(func() error { return h.Do(work) }) // a worker enters the namespace only once
	}
	err := group.Wait()
	t.Took = time.Since(start)
	slices.Sort(t.Latencies)
	if err != nil {
		return t, fmt.Errorf("ask %s/%s from %s: %w", b.To, b.Protocol, h.Name, err)
	}
	return t, nil
}

func (t *Tally) add(a Answer) {
	switch a.Outcome {
	case Answered:
		t.Answered[a.By]++
		t.Latencies = append(t.Latencies, a.Took)
	case Refused:
		t.Refused++
	case TimedOut:
		t.TimedOut++
	case Unreachable:
		t.Unreachable++
	case Reset:
		t.Reset++
	}
}

// String returns one line with the counts, sorted by host.
func (t Tally) String() string {
	var s string
	for _, name := range slices.Sorted(maps.Keys(t.Answered)) {
		s += fmt.Sprintf("%s %d, ", name, t.Answered[name])
	}
	return s + fmt.Sprintf("refused %d, timed out %d, unreachable %d, reset %d",
		t.Refused, t.TimedOut, t.Unreachable, t.Reset)
}
