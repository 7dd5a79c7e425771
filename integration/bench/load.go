package main

import (
	"runtime"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// sizes are those of the main tables.
func (b *bench) sizes() []size {
	all := []size{{100, 10}, {1_000, 10}, {10_000, 10}, {45_000, 1}}
	if b.quick {
		return all[:3]
	}
	return all
}

// standard is the size that promises are about.
var standard = size{10_000, 10}

// clusters makes what is measured one after the other: all sizes in family ip,
// and one of them in ip6.
func (b *bench) clusters(fn func(c *cluster) error) error {
	for _, s := range b.sizes() {
		if err := fn(newCluster(s, model.IPv4)); err != nil {
			return err
		}
	}
	return fn(newCluster(standard, model.IPv6))
}

func (c *cluster) label() string { return nft.FamilyName(c.family) + ", " + c.size.String() }

// loadTimes are those of one first load.
type loadTimes struct {
	model, adopt, encode, kernel, total, bare, copied times
	steps, bytes, elements                            int
}

// load measures the first load: from the cluster's objects to the commit.
func (b *bench) load() error {
	s := b.section("First load", "", "model", "compile", "encode", "kernel", "total",
		"floor", "kernel/floor", "total/floor", "ours/total", "bytes", "steps", "copy")
	s.note("model: selection of endpoints, once; compile: Adopt; encode: Batch.Encode; kernel: sending and commit")
	s.note("floor: the same bytes prepared beforehand; total leaves out the model; copy: those bytes copied to new memory")
	return b.clusters(func(c *cluster) error {
		start := time.Now()
		want := c.all()
		t := &loadTimes{model: times{time.Since(start)}}
		for range b.rounds(c.size) {
			if err := t.round(want); err != nil {
				return err
			}
		}
		kernel, floor, total := t.kernel.median(), t.bare.median(), t.total.median()
		s.add(c.label(), brief(t.model.median()), brief(t.adopt.median()), brief(t.encode.median()),
			brief(kernel), brief(total), brief(floor),
			factor(ratio(kernel, floor)), factor(ratio(total, floor)), factor(ratio(total-kernel, total)),
			bytesText(t.bytes), thousands(t.steps), brief(t.copied.median()))
		if c.size == standard {
			// The least disturbed round of each: what else the machine does is no
			// part of the promise.
			least := ratio(t.kernel.at(0), t.bare.at(0))
			b.promise(least < 2, "first load, %s: kernel part %s floor, below 2 x", c.label(), factor(least))
		}
		return nil
	})
}

// rounds is how often a first load of that size is repeated.
func (b *bench) rounds(s size) int {
	switch {
	case b.quick:
		return 3
	case s.services < 10_000:
		return 11
	}
	return 7
}

// round loads once with our program and once with prepared bytes, each into a
// namespace of its own.
func (t *loadTimes) round(want nft.Change) error {
	runtime.GC()
	err := inSandbox(func(s *sandbox) error {
		start := time.Now()
		_, batch := nft.Adopt(config, nft.Tables{}, want)
		adopted := time.Now()
		applied, err := s.kernel.Apply(batch)
		t.total = append(t.total, time.Since(start))
		t.adopt = append(t.adopt, adopted.Sub(start))
		t.encode = append(t.encode, applied.Took-applied.Kernel)
		t.kernel = append(t.kernel, applied.Kernel)
		t.steps, t.bytes = applied.Steps, applied.Bytes
		t.elements = batch.Counts().Added
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
	t.copied = append(t.copied, copying(prepared))
	return inSandbox(func(s *sandbox) error {
		took, err := s.bare.send(prepared...)
		t.bare = append(t.bare, took)
		return err
	})
}

// copying is the floor of encoding: how long it takes to write as many bytes
// where none were.
func copying(parts [][]byte) time.Duration {
	start := time.Now()
	for _, p := range parts {
		_ = append([]byte(nil), p...)
	}
	return time.Since(start)
}
