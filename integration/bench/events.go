package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// smallSizes are the sizes that larger ones are compared with, by endpoints of a Service.
var smallSizes = map[int]size{1: {100, 1}, 10: {100, 10}}

// events measures changes through the loop, from an event of the source to the commit.
func (b *bench) events() error {
	s := b.eventSection("From an event to the commit")
	s.Note("the loop of the proxy, with a source of events, to the end of the kernel's commit. It also checks for drift.")
	s.Note("floor: the same bytes prepared beforehand, sent to the same tables in another namespace;")
	s.Note("all sizes in one process, in turns of %s; the data of a Service is in no cache of the processor", block)
	s.Note("when its endpoint is replaced, and is the second time")
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
		one, err := startLoopWithFloor(&cluster{size: z, serviceKind: clusterIPKind, family: f})
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
		for _, name := range []string{e.name, e.opposite} {
			base := map[size]*changeTimes{}
			for i, f := range all {
				t := measured[i][name]
				base[f.size] = t
				t.row(s, f.label()+", "+name)
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

// eventSection begins a table of changes.
func (b *bench) eventSection(title string) *report.Section {
	return b.Section(title, "", "p50", "p99", "kernel", "floor p50", "floor p99", "bytes")
}

func (t *changeTimes) row(s *report.Section, label string) {
	s.Add(label, t.total.Median(), t.total.At(0.99), t.kernel.Median(), t.floor.Median(), t.floor.At(0.99), report.Bytes(t.bytes[0]))
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
