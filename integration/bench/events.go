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

// loopBench is a running loop with its cluster, and a namespace with the same tables to
// which the same bytes are sent for the floor.
//
// The floor has a namespace of its own because the loop would treat these bytes as
// another program's changes.
type loopBench struct {
	*cluster
	*runningLoop
	floorBox *sandbox
}

// newLoopBench starts the loop, without a floor. It must be closed.
func newLoopBench(c *cluster) (*loopBench, error) {
	r, err := startLoop(c, config)
	if err != nil {
		return nil, err
	}
	return &loopBench{cluster: c, runningLoop: r}, nil
}

// newLoopBenchWithFloor returns a loopBench with the namespace for the floor.
func newLoopBenchWithFloor(c *cluster) (*loopBench, error) {
	f, err := newLoopBench(c)
	if err != nil {
		return nil, err
	}
	if f.floorBox, err = newSandbox(); err == nil {
		err = f.sendFloor(f.first, nil)
	}
	f.first = commit{}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// close ends the loop, if it was started.
func (f *loopBench) close() error {
	if f == nil {
		return nil
	}
	err := f.runningLoop.close()
	if f.floorBox != nil {
		err = errors.Join(err, f.floorBox.close())
	}
	return err
}

// sendFloor sends what the loop has sent, and records how long that took.
func (f *loopBench) sendFloor(c commit, to *changeTimes) error {
	parts, err := prepare(c.batch)
	if err != nil {
		return err
	}
	took, err := f.floorBox.raw.send(parts...)
	if to != nil {
		to.floor = append(to.floor, took)
	}
	return err
}

// measurePair makes a change and its opposite, then sends the same bytes.
func (f *loopBench) measurePair(e changeKind, number int, to [2]*changeTimes) error {
	do, undo := e.prepare(f.cluster, number)
	var taken [2]commit
	for i, burst := range [...][]sync.Event{do, undo} {
		o, err := f.follow(changedService(burst), burst)
		if err != nil {
			return err
		}
		taken[i] = o.commit
		to[i].total, to[i].kernel = append(to[i].total, o.took), append(to[i].kernel, o.applied.Kernel)
		to[i].bytes = append(to[i].bytes, o.applied.Bytes)
	}
	for i, c := range taken {
		if err := f.sendFloor(c, to[i]); err != nil {
			return err
		}
	}
	return nil
}

// smallSizes are the sizes that larger ones are compared with, by endpoints of a Service.
var smallSizes = map[int]size{1: {100, 1}, 10: {100, 10}}

// events measures changes through the loop, from an event of the source to the commit.
func (b *bench) events() error {
	s := b.Section("From an event to the commit", eventColumns("100")...)
	s.Note("the loop of the proxy, with a source of events, to the end of the kernel's commit. It also checks for drift.")
	s.Note("p50/100, p99/100: against 100 Services of as many endpoints; floor: the same bytes prepared beforehand,")
	s.Note("sent to the same tables in another namespace; all sizes in one process, in turns of %s;", block)
	s.Note("the data of a Service is in no cache of the processor when its endpoint is replaced, and is the second time")
	for _, f := range b.families() {
		if err := b.eventsOf(s, f); err != nil {
			return err
		}
	}
	return nil
}

// block is how many changes are measured with one loop before the next one has its turn,
// because each begins with the processor's caches full of the other's data.
const block = 20

// eventsOf measures one family at all sizes.
func (b *bench) eventsOf(s *report.Section, f model.Family) (err error) {
	var all []*loopBench
	defer func() { err = errors.Join(err, closeLoops(all)) }()
	for _, z := range []size{smallSizes[1], smallSizes[10], {1_000, 10}, standard, {45_000, 1}} {
		one, err := newLoopBenchWithFloor(&cluster{size: z, serviceKind: clusterIPKind, family: f})
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	for _, e := range []changeKind{replaceColdAndWarm, endpointAdded, serviceAdded} {
		measured, err := measureEvents(e, b.eventRepetitions(e), all)
		if err != nil {
			return err
		}
		for _, name := range e.names() {
			base := map[size]*changeTimes{}
			for i, f := range all {
				t := measured[i][name]
				base[f.size] = t
				t.eventRow(s, f.label()+", "+name, base[smallSizes[f.endpoints]])
				b.markEvent(f.cluster, name, t, base[smallSizes[f.endpoints]])
			}
			if name == endpointReplaced {
				b.promiseBytes(nft.FamilyName(f), name, measured)
			}
		}
	}
	return nil
}

// promiseBytes checks that a change sends the same bytes whatever the size of the cluster.
func (b *bench) promiseBytes(family, name string, measured []map[string]*changeTimes) {
	different := map[int]bool{}
	for _, m := range measured {
		for _, n := range m[name].bytes {
			different[n] = true
		}
	}
	b.Promise(len(different) == 1, "%s, %s: the same number of bytes at all sizes", name, family)
}

// eventRepetitions returns how often a change is measured: often enough for a p99.
func (b *bench) eventRepetitions(e changeKind) int {
	switch replaced := e.name == endpointReplaced; {
	case b.quick && replaced:
		return 10 * block
	case b.quick:
		return 2 * block
	case replaced:
		return 100 * block
	}
	return 10 * block
}

// measureEvents repeats a change with all loops, in turns.
func measureEvents(e changeKind, turns int, all []*loopBench) ([]map[string]*changeTimes, error) {
	measured := make([]map[string]*changeTimes, len(all))
	for k := range all {
		measured[k] = map[string]*changeTimes{e.name: {}, e.opposite: {}}
	}
	runtime.GC()
	for i := 0; i < turns; i += block {
		for k, f := range all {
			to := [2]*changeTimes{measured[k][e.name], measured[k][e.opposite]}
			for j := i; j < i+block; j++ {
				if err := f.measurePair(e, j, to); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", f.label(), e.name, err)
				}
			}
		}
	}
	return measured, nil
}

// eventColumns returns the columns of eventRow, for rows compared with some others.
func eventColumns(with string) []any {
	return []any{"", "p50", "p99", "p50/" + with, "p99/" + with, "kernel", "floor p50", "floor p99", "total/floor", "bytes"}
}

func (t *changeTimes) eventRow(s *report.Section, label string, base *changeTimes) {
	p50, p99 := t.total.Median(), t.total.At(0.99)
	s.Add(label, p50, p99, report.Ratio(p50, base.total.Median()), report.Ratio(p99, base.total.At(0.99)),
		t.kernel.Median(), t.floor.Median(), t.floor.At(0.99),
		report.Ratio(p50, t.floor.Median()), report.Bytes(t.bytes[0]))
}

// markEvent records the marks of the largest clusters.
func (b *bench) markEvent(c *cluster, name string, t, base *changeTimes) {
	if c.size.services < standard.services {
		return
	}
	what, p50 := name+", "+c.label(), t.total.Median()
	switch name {
	case endpointReplaced:
		p99 := t.total.At(0.99)
		b.MarkTime(what+", p50", p50, "floor "+report.Text(t.floor.Median()), time.Millisecond)
		b.MarkTime(what+", p99", p99, "floor p99 "+report.Text(t.floor.At(0.99)), 3*time.Millisecond)
		b.MarkRatio(what+", p99 against 100", p99, "among 100", base.total.At(0.99), 1.3)
	case replaceColdAndWarm.opposite:
		// Not for cold data: that of a hundred small Services is always in the caches.
		b.MarkRatio(what+", p50 against 100", p50, "among 100", base.total.Median(), 1.3)
	case endpointAdded.name, serviceAdded.name:
		b.MarkRatio(what+", p50", p50, "floor", t.floor.Median(), 1.5)
	}
}

func closeLoops(all []*loopBench) error {
	var errs []error
	for _, f := range all {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}
