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
	family model.Family
	below  time.Duration
}{
	{size{100, 10}, model.IPv4, 0},
	{size{1_000, 10}, model.IPv4, 0},
	{standard, model.IPv4, time.Second},
	{size{45_000, 1}, model.IPv4, time.Second},
	{size{5_000, 50}, model.IPv4, 2 * time.Second},
	{size{1, 100_000}, model.IPv4, 2 * time.Second},
	{standard, model.IPv6, time.Second},
	{size{45_000, 1}, model.IPv6, time.Second},
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
	kernel, total, floor report.Times
	bytes                int
}

// load measures the first load: from the cluster's objects to the commit.
func (b *bench) load() error {
	s := b.Section("First load", "", "model", "kernel", "total", "floor", "kernel/floor", "bytes")
	s.Note("model: selection of endpoints, once; kernel: sending and commit; total: Adopt to commit")
	s.Note("floor: the same bytes prepared beforehand")
	for _, l := range loads {
		c := newCluster(l.size, l.family)
		start := time.Now()
		want := c.all()
		took, t := time.Since(start), &loadTimes{}
		for range b.rounds(c.size) {
			if err := t.round(want); err != nil {
				return err
			}
		}
		kernel, floor, total := t.kernel.Median(), t.floor.Median(), t.total.Median()
		s.Add(c.label(), took, kernel, total, floor, report.Ratio(kernel, floor), report.Bytes(t.bytes))
		if c.size == standard {
			// The least disturbed round of each: the machine's other load is no part of the
			// promise.
			least := report.Ratio(t.kernel.At(0), t.floor.At(0))
			b.Promise(least < 2, "first load, %s: kernel part %s floor, below 2 x", c.label(), least)
		}
		if l.below > 0 {
			b.MarkTime("first load from the model, "+c.label(), took+total, "floor "+report.Text(floor), l.below)
		}
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
		start := time.Now()
		_, batch := nft.Adopt(config, nft.Tables{}, want)
		applied, err := s.kernel.Apply(batch)
		t.total = append(t.total, time.Since(start))
		t.kernel = append(t.kernel, applied.Kernel)
		t.bytes = applied.Bytes
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
