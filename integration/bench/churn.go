package main

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/sync"
)

// churn measures whether a Service whose endpoints change without a pause delays the
// changes of other Services.
//
// A change that arrives while the loop builds a batch goes into the next one. Its delay
// is counted in batches: those that the loop began after the change was in its queue,
// and that do not contain it.
func (b *bench) churn() error {
	s := b.Section("Changes beside a Service that never stops changing, "+standard.String(), "", "p50", "p99", "slowest",
		"churn", "in a batch", "a batch", "batches later")
	s.Note("endpoint of another Service replaced, event to commit, alone and during the churn, in turns of %s, at random", block)
	s.Note("moments; churn: changes of the other Service; a batch: from one to the next, p50; batches later: than the first")
	s.Note("batch begun after the change was in the loop's queue, at most")
	for _, f := range b.families() {
		if err := b.churnOf(s, f); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) churnOf(s *report.Section, family model.Family) (err error) {
	f, err := newLoopBench(standard, family, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	turns := 20 * block
	if b.quick {
		turns = 5 * block
	}
	for _, h := range churnKinds {
		var alone, beside churnTimes
		bursts := h.bursts(f.cluster, f.churningService())
		runtime.GC()
		for i := 0; i < turns; i += block {
			if err := alone.measure(f, i); err != nil {
				return err
			}
			stop := f.startChurn(bursts, &beside)
			err := beside.measure(f, i)
			stop()
			if err != nil {
				return err
			}
		}
		alone.row(s, f.label()+", alone")
		beside.row(s, f.label()+", beside one that "+h.does)
		b.markChurn("beside a Service that always "+h.does+", "+f.label(), &alone, &beside)
	}
	return nil
}

// churnKinds are the changes that the churning Service makes, between two states.
var churnKinds = []struct {
	does   string
	bursts func(c *cluster, i int) [2][]sync.Event
}{
	{"replaces an endpoint", func(c *cluster, i int) [2][]sync.Event {
		pods := c.pods(i, c.endpoints+1)
		pods[0] = c.pod(i, c.endpoints+1)
		return [2][]sync.Event{c.setPods(i, pods), c.setPods(i, c.pods(i, c.endpoints+1))}
	}},
	{"changes its count", func(c *cluster, i int) [2][]sync.Event {
		return [2][]sync.Event{c.setPods(i, c.pods(i, c.endpoints)), c.setPods(i, c.pods(i, c.endpoints+1))}
	}},
}

func (b *bench) markChurn(what string, alone, beside *churnTimes) {
	b.Mark(beside.later <= 1, what+", batches later", int(beside.later), "alone "+report.Text(int(alone.later)), "at most 1")
	// A change waits for the batch under way, and is part of the next.
	took, bound := beside.took.Median(), alone.took.Median()+2*beside.batches.Median()
	b.Mark(took < bound, what+", p50", took, "alone "+report.Text(alone.took.Median()), "2 batches more: "+report.Text(bound))
}

// churnTimes holds how long changes took, and what the churning Service did meanwhile.
type churnTimes struct {
	took    report.Times
	later   int64
	changes int
	batches report.Times
}

func (w *churnTimes) row(s *report.Section, label string) {
	cells := []any{label, w.took.Median(), w.took.At(0.99), w.took.At(1), nil, nil, nil, int(w.later)}
	if w.changes > 0 {
		cells[4], cells[5], cells[6] = w.changes, float64(w.changes)/float64(len(w.batches)), w.batches.Median()
	}
	s.Add(cells...)
}

// churningService returns the number of the churning Service, the one with an endpoint
// more than the others. No other change picks it.
func (f *loopBench) churningService() int { return f.size.services }

// startChurn changes the churning Service as fast as the loop accepts it, until stop.
func (f *loopBench) startChurn(bursts [2][]sync.Event, w *churnTimes) (stop func()) {
	f.startRecording()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for k := 0; ; k++ {
			select {
			case <-end:
				return
			case f.bursts <- bursts[k%2]:
				w.changes++
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		w.batches = append(w.batches, f.stopRecording()...)
		f.settle()
	}
}

// settle waits until the loop has processed everything that was sent.
func (f *loopBench) settle() {
	for before := int64(-1); before != f.batchesBegun.Load() || len(f.bursts) > 0; {
		before = f.batchesBegun.Load()
		time.Sleep(time.Millisecond)
	}
}

// measure changes other Services, one at a time and at random moments.
func (w *churnTimes) measure(f *loopBench, from int) error {
	for i := from; i < from+block; i++ {
		do, undo := replaceEndpoint(f.cluster, i)
		for _, burst := range [...][]sync.Event{do, undo} {
			time.Sleep(rand.N(500 * time.Microsecond))
			o, err := f.follow(changedService(burst), burst)
			if err != nil {
				return err
			}
			w.took, w.later = append(w.took, o.took), max(w.later, o.batchesLater)
		}
	}
	return nil
}
