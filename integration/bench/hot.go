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

// hot measures whether a Service that changes its endpoints without a pause delays
// the changes of others.
//
// A change that comes while a batch is put together goes into the next one. Whether it
// goes later is counted in batches: those that the loop began to put together after
// the change stood in its queue, and that do not have it.
func (b *bench) hot() error {
	s := b.Section("Changes beside a Service that never stops changing, "+standard.String(), "", "p50", "p99", "slowest",
		"hot changes", "in a batch", "a batch", "batches later")
	s.Note("endpoint of another Service replaced, event to commit, alone and beside the hot one, in turns of %s, at random", block)
	s.Note("moments; in a batch: hot changes; a batch: from one to the next, p50; batches later: than the first one begun after")
	s.Note("the change stood in the loop's queue, at most")
	for _, f := range b.families() {
		if err := b.hotOf(s, f); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) hotOf(s *report.Section, family model.Family) (err error) {
	f, err := newFollower(standard, family, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	turns := 20 * block
	if b.quick {
		turns = 5 * block
	}
	for _, h := range heats {
		var alone, beside waits
		bursts := h.bursts(f.cluster, f.hotService())
		runtime.GC()
		for i := 0; i < turns; i += block {
			if err := alone.measure(f, i); err != nil {
				return err
			}
			stop := f.heat(bursts, &beside)
			err := beside.measure(f, i)
			stop()
			if err != nil {
				return err
			}
		}
		alone.row(s, f.label()+", alone")
		beside.row(s, f.label()+", beside one that "+h.does)
		b.markHot("beside a Service that always "+h.does+", "+f.label(), &alone, &beside)
	}
	return nil
}

// heats are what the hot Service may do, and its states, by turns.
var heats = []struct {
	does   string
	bursts func(c *cluster, i int) [2][]sync.Event
}{
	{"replaces an endpoint", func(c *cluster, i int) [2][]sync.Event {
		pods := c.pods(i, c.endpoints+1)
		pods[0] = c.pod(i, c.endpoints+1)
		return [2][]sync.Event{c.exchange(i, pods), c.exchange(i, c.pods(i, c.endpoints+1))}
	}},
	{"changes its count", func(c *cluster, i int) [2][]sync.Event {
		return [2][]sync.Event{c.exchange(i, c.pods(i, c.endpoints)), c.exchange(i, c.pods(i, c.endpoints+1))}
	}},
}

func (b *bench) markHot(what string, alone, beside *waits) {
	b.Mark(beside.later <= 1, what+", batches later", int(beside.later), "alone "+report.Text(int(alone.later)), "at most 1")
	// It waits for the batch that is under way, and is one of the next.
	took, bound := beside.took.Median(), alone.took.Median()+2*beside.batches.Median()
	b.Mark(took < bound, what+", p50", took, "alone "+report.Text(alone.took.Median()), "2 batches more: "+report.Text(bound))
}

// waits is how long changes took, and what the hot Service did meanwhile.
type waits struct {
	took    report.Times
	later   int64
	hot     int
	batches report.Times
}

func (w *waits) row(s *report.Section, label string) {
	cells := []any{label, w.took.Median(), w.took.At(0.99), w.took.At(1), nil, nil, nil, int(w.later)}
	if w.hot > 0 {
		cells[4], cells[5], cells[6] = w.hot, float64(w.hot)/float64(len(w.batches)), w.batches.Median()
	}
	s.Add(cells...)
}

// hotService is the number of the Service that is hot, which is nobody's victim:
// it has one endpoint more than the others.
func (f *follower) hotService() int { return f.size.services }

// heat changes the hot Service as fast as the loop takes it, until it is stopped.
func (f *follower) heat(bursts [2][]sync.Event, w *waits) (stop func()) {
	f.record()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for k := 0; ; k++ {
			select {
			case <-end:
				return
			case f.bursts <- bursts[k%2]:
				w.hot++
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		w.batches = append(w.batches, f.recorded()...)
		f.settle()
	}
}

// settle waits until the loop has taken all that was sent.
func (f *follower) settle() {
	for before := int64(-1); before != f.begun.Load() || len(f.bursts) > 0; {
		before = f.begun.Load()
		time.Sleep(time.Millisecond)
	}
}

// measure makes changes of other Services, one at a time and at moments that have
// nothing to do with what the loop is at.
func (w *waits) measure(f *follower, from int) error {
	for i := from; i < from+block; i++ {
		do, undo := replaceEndpoint(f.cluster, i)
		for _, burst := range [...][]sync.Event{do, undo} {
			time.Sleep(rand.N(500 * time.Microsecond))
			o, err := f.follow(subject(burst), burst)
			if err != nil {
				return err
			}
			w.took, w.later = append(w.took, o.took), max(w.later, o.later)
		}
	}
	return nil
}
