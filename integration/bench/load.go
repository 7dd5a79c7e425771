package main

import (
	"runtime"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// loads are the sizes of first loads, and the limit for the time from the model's values
// to the commit, if any.
var loads = []struct {
	size
	below time.Duration
}{
	{size{100, 10}, 0},
	{size{1_000, 10}, 0},
	{standard, time.Second},
	{size{45_000, 1}, time.Second},
	{size{5_000, 50}, 2 * time.Second},
	{size{1, 100_000}, 2 * time.Second},
}

// families returns the families in which marks are measured.
func (b *bench) families() []model.Family {
	if b.quick {
		return model.Families[:1]
	}
	return model.Families[:]
}

// standard is the size of which promises are made.
var standard = size{10_000, 10}

func (c *cluster) label() string { return nft.FamilyName(c.family) + ", " + c.size.String() }

// loadTimes are those of one first load.
type loadTimes struct {
	model, adopt, encode, kernel, total, floor report.Times
	cpu                                        []cpuTime
	steps, bytes                               int
}

// load measures the first load: from the cluster's objects to the commit.
func (b *bench) load() error {
	s := b.Section("First load", "", "model", "compile", "encode", "kernel", "total",
		"floor", "kernel/floor", "total/floor", "ours/total", "CPU", "user/CPU", "bytes", "steps")
	s.Note("model: selection of endpoints, once; compile: Adopt; encode: Batch.Encode; kernel: sending and commit")
	s.Note("floor: the same bytes prepared beforehand; total leaves out the model")
	s.Note("CPU: of the whole process from compile to commit; user: compile, encode and the collector")
	for _, l := range loads {
		if err := b.loadOf(s, newCluster(l.size, model.IPv4), l.below); err != nil {
			return err
		}
	}
	for _, z := range []size{standard, {45_000, 1}} {
		if err := b.loadOf(s, newCluster(z, model.IPv6), time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) loadOf(s *report.Section, c *cluster, below time.Duration) error {
	start := time.Now()
	want := c.all()
	t := &loadTimes{model: report.Times{time.Since(start)}}
	for n := 0; n < b.rounds(c.size) || below > 0 && sum(t.cpu).all() < minCPUTime; n++ {
		if err := t.round(want); err != nil {
			return err
		}
	}
	kernel, floor, total, cpu := t.kernel.Median(), t.floor.Median(), t.total.Median(), sum(t.cpu)
	s.Add(c.label(), t.model.Median(), t.adopt.Median(), t.encode.Median(),
		kernel, total, floor,
		report.Ratio(kernel, floor), report.Ratio(total, floor), report.Ratio(total-kernel, total),
		cpu.all()/time.Duration(len(t.cpu)), report.Percent(cpu.share()), report.Bytes(t.bytes), t.steps)
	if c.size == standard {
		// The least disturbed round of each: the machine's other load is no part of the
		// promise.
		least := report.Ratio(t.kernel.At(0), t.floor.At(0))
		b.Promise(least < 2, "first load, %s: kernel part %s floor, below 2 x", c.label(), least)
	}
	if below > 0 {
		b.MarkTime("first load from the model, "+c.label(), t.model.Median()+total, "floor "+report.Text(floor), below)
		b.Mark(cpu.share() < 0.25, "first load, "+c.label()+", share of CPU that is ours", report.Percent(cpu.share()),
			"", "below 25 %")
	}
	return nil
}

// rounds returns how often a first load of that size is repeated.
func (b *bench) rounds(s size) int {
	switch {
	case b.quick:
		return 3
	case s.services < 10_000:
		return 11
	}
	return 7
}

// round loads once through nft.Adopt and once with prepared bytes, each into a namespace
// of its own.
func (t *loadTimes) round(want nft.Change) error {
	runtime.GC()
	err := inSandbox(func(s *sandbox) error {
		before := cpuOfProcess()
		start := time.Now()
		_, batch := nft.Adopt(config, nft.Tables{}, want)
		adopted := time.Now()
		applied, err := s.kernel.Apply(batch)
		t.total = append(t.total, time.Since(start))
		t.cpu = append(t.cpu, cpuOfProcess().since(before))
		t.adopt = append(t.adopt, adopted.Sub(start))
		t.encode = append(t.encode, applied.Took-applied.Kernel)
		t.kernel = append(t.kernel, applied.Kernel)
		t.steps, t.bytes = applied.Steps, applied.Bytes
		return err
	})
	if err != nil {
		return err
	}
	_, batch := nft.Adopt(config, nft.Tables{}, want)
	prepared, err := prepare(batch)
	if err != nil {
		return err
	}
	runtime.GC()
	return inSandbox(func(s *sandbox) error {
		took, err := s.raw.send(prepared...)
		t.floor = append(t.floor, took)
		return err
	})
}
