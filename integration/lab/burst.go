package lab

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
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
	tallies := make([]Tally, max(b.Workers, 1))
	start := time.Now()
	var group errgroup.Group
	for i := range tallies {
		// A worker enters the namespace only once.
		group.Go(func() error { return h.Do(func() error { return b.work(&left, &tallies[i]) }) })
	}
	err := group.Wait()
	total := Tally{Answered: map[string]int{}, Took: time.Since(start)}
	for _, t := range tallies {
		total.merge(t)
	}
	slices.Sort(total.Latencies)
	if err != nil {
		return total, fmt.Errorf("ask %s/%s from %s: %w", b.To, b.Protocol, h.Name, err)
	}
	return total, nil
}

func (b Burst) work(left *atomic.Int64, t *Tally) error {
	for left.Add(-1) >= 0 {
		answer, err := ask(b.Protocol, netip.AddrPort{}, b.To, b.Timeout)
		if err != nil {
			left.Store(0)
			return err
		}
		t.add(answer)
	}
	return nil
}

func (t *Tally) add(a Answer) {
	switch a.Outcome {
	case Answered:
		if t.Answered == nil {
			t.Answered = make(map[string]int)
		}
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

func (t *Tally) merge(o Tally) {
	for name, n := range o.Answered {
		t.Answered[name] += n
	}
	t.Refused += o.Refused
	t.TimedOut += o.TimedOut
	t.Unreachable += o.Unreachable
	t.Reset += o.Reset
	t.Latencies = append(t.Latencies, o.Latencies...)
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
