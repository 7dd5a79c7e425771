package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// follower is a loop at work, what it follows, and a namespace with the same tables
// into which the same bytes are sent bare.
//
// The floor has a namespace of its own because the loop would take what is sent past
// it for another program's doing.
type follower struct {
	*cluster
	*running
	twin *sandbox
}

// newFollower starts the loop; alter, unless it is nil, changes its batches on their
// way. It must be closed.
func newFollower(z size, f model.Family, alter func(nft.Batch) nft.Batch) (*follower, error) {
	c := &cluster{size: z, kind: usual, family: f}
	r, err := startLoop(c, config, alter)
	if err != nil {
		return nil, err
	}
	return &follower{cluster: c, running: r}, nil
}

// newMeasured is a follower with its twin.
func newMeasured(z size, family model.Family) (*follower, error) {
	f, err := newFollower(z, family, nil)
	if err != nil {
		return nil, err
	}
	if f.twin, err = newSandbox(); err == nil {
		err = f.again(f.first, nil)
	}
	f.first = commit{}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// close ends it, if it was begun.
func (f *follower) close() error {
	if f == nil {
		return nil
	}
	err := f.running.close()
	if f.twin != nil {
		err = errors.Join(err, f.twin.close())
	}
	return err
}

// again sends what the loop has sent, and notes how long that took.
func (f *follower) again(c commit, to *changeTimes) error {
	parts, err := prepare(c.batch)
	if err != nil {
		return err
	}
	took, err := f.twin.bare.send(parts...)
	if to != nil {
		to.bare = append(to.bare, took)
	}
	return err
}

// turn makes a change and its opposite, then sends the same bytes.
func (f *follower) turn(e edit, number int, to [2]*changeTimes) error {
	do, undo := e.prepare(f.cluster, number)
	var taken [2]commit
	for i, burst := range [...][]sync.Event{do, undo} {
		o, err := f.follow(subject(burst), burst)
		if err != nil {
			return err
		}
		taken[i] = o.commit
		to[i].total, to[i].kernel = append(to[i].total, o.took), append(to[i].kernel, o.applied.Kernel)
		to[i].bytes = append(to[i].bytes, o.applied.Bytes)
	}
	for i, c := range taken {
		if err := f.again(c, to[i]); err != nil {
			return err
		}
	}
	return nil
}

// replaceColdAndWarm keeps apart the first change of a Service, of which nothing is in
// the processor's caches, and the second one that comes at once.
var replaceColdAndWarm = edit{replaces, "the same Service again", replaceEndpoint}

// few are the sizes that larger ones are compared with: of as many endpoints.
var few = map[int]size{1: {100, 1}, 10: {100, 10}}

// events measures the way of a change through the loop itself: from an event of the
// source to the commit.
func (b *bench) events() error {
	s := b.Section("From an event to the commit", "", "p50", "p99", "p50/100", "p99/100", "kernel",
		"floor p50", "floor p99", "total/floor", "bytes")
	s.Note("the loop of the proxy, told by a source; to when the kernel's commit is over. It also looks for drift.")
	s.Note("p50/100, p99/100: against 100 Services of as many endpoints; floor: the same bytes prepared beforehand,")
	s.Note("sent to the same tables in another namespace; all sizes side by side, in turns of %s, in one heap;", block)
	s.Note("a Service is in no cache of the processor when its endpoint is replaced, and is when that comes again")
	for _, f := range b.families() {
		if err := b.eventsOf(s, f); err != nil {
			return err
		}
	}
	return b.largeEvents()
}

// eventsOf measures one family at all sizes.
func (b *bench) eventsOf(s *report.Section, f model.Family) (err error) {
	var all []*follower
	defer func() { err = errors.Join(err, closeAll(all)) }()
	for _, z := range []size{few[1], few[10], {1_000, 10}, standard, {45_000, 1}} {
		one, err := newMeasured(z, f)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	for _, e := range []edit{replaceColdAndWarm, moreEndpoints, moreServices} {
		measured, err := alternate(e, b.eventTurns(e), all)
		if err != nil {
			return err
		}
		for _, name := range e.names() {
			base := map[size]*changeTimes{}
			for i, f := range all {
				t := measured[i][name]
				base[f.size] = t
				t.eventRow(s, f.label()+", "+name, base[few[f.endpoints]])
				b.markEvent(f.cluster, name, t, base[few[f.endpoints]])
			}
		}
	}
	return nil
}

// eventTurns is how often a change is repeated: often enough that the slowest in a
// hundred are some.
func (b *bench) eventTurns(e edit) int {
	switch replaced := e.does == replaces; {
	case b.quick && replaced:
		return 10 * block
	case b.quick:
		return 2 * block
	case replaced:
		return 100 * block
	}
	return 10 * block
}

// alternate repeats a change with all followers, by turns.
func alternate(e edit, turns int, all []*follower) ([]map[string]*changeTimes, error) {
	measured := make([]map[string]*changeTimes, len(all))
	for k := range all {
		measured[k] = map[string]*changeTimes{e.does: {}, e.undoes: {}}
	}
	runtime.GC()
	for i := 0; i < turns; i += block {
		for k, f := range all {
			to := [2]*changeTimes{measured[k][e.does], measured[k][e.undoes]}
			for j := i; j < i+block; j++ {
				if err := f.turn(e, j, to); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", f.label(), e.does, err)
				}
			}
		}
	}
	return measured, nil
}

func (t *changeTimes) eventRow(s *report.Section, label string, base *changeTimes) {
	p50, p99 := t.total.Median(), t.total.At(0.99)
	s.Add(label, p50, p99, report.Ratio(p50, base.total.Median()), report.Ratio(p99, base.total.At(0.99)),
		t.kernel.Median(), t.bare.Median(), t.bare.At(0.99),
		report.Ratio(p50, t.bare.Median()), report.Bytes(t.bytes[0]))
}

// markEvent notes what is asked of the largest clusters.
func (b *bench) markEvent(c *cluster, name string, t, base *changeTimes) {
	if c.size.services < standard.services {
		return
	}
	what, p50 := name+", "+c.label(), t.total.Median()
	switch name {
	case replaces:
		p99 := t.total.At(0.99)
		b.MarkTime(what+", p99", p99, "floor p99 "+report.Text(t.bare.At(0.99)), 3*time.Millisecond)
		b.MarkRatio(what+", p99 against 100", p99, "among 100", base.total.At(0.99), 1.3)
	case replaceColdAndWarm.undoes:
		// Not of those that are in no cache: a hundred small Services leave none.
		b.MarkRatio(what+", p50 against 100", p50, "among 100", base.total.Median(), 1.3)
	case moreEndpoints.does, moreServices.does:
		b.MarkRatio(what+", p50", p50, "floor", t.bare.Median(), 1.5)
	}
}

// largeEvents measures changes of one Service with very many endpoints.
func (b *bench) largeEvents() (err error) {
	s := b.Section("From an event to the commit, one endpoint of a single Service in slices of 100", "", "p50", "p99", "p50/1,000", "kernel",
		"floor p50", "floor p99", "total/floor", "bytes")
	var all []*follower
	defer func() { err = errors.Join(err, closeAll(all)) }()
	for _, n := range []int{1_000, 10_000, 100_000} {
		one, err := newMeasured(size{1, n}, model.IPv4)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	measured, err := alternate(replaceColdAndWarm, b.eventTurns(moreServices), all)
	if err != nil {
		return err
	}
	least := measured[0][replaces].total.Median()
	for i, f := range all {
		t := measured[i][replaces]
		s.Add(f.label(), t.total.Median(), t.total.At(0.99), report.Ratio(t.total.Median(), least),
			t.kernel.Median(), t.bare.Median(), t.bare.At(0.99),
			report.Ratio(t.total.Median(), t.bare.Median()), report.Bytes(t.bytes[0]))
	}
	return nil
}

func closeAll(all []*follower) error {
	var errs []error
	for _, f := range all {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}
