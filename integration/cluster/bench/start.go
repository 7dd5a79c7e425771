package main

import (
	"context"
	"slices"
	"time"

	"kube-vmap/integration/bench/report"
)

// starts measures the starts of informers alone, of kube-vmap without its tables, and of
// kube-vmap with all tables in place.
func (b *bench) starts(ctx context.Context) error {
	all := [...]*program{b.informers(), b.kubeVMap("kube-vmap"), b.kubeVMap("kube-vmap, all in place")}
	floor, first, again := all[0], all[1], all[2]
	silent := 0
	for round := range b.rounds + 1 {
		if round == 1 { // the one before was to warm up
			silent = 0
			for _, p := range all {
				p.cost = cost{}
			}
		}
		unchanged, err := b.round(ctx, round, floor, first, again)
		if err != nil {
			return err
		}
		if unchanged {
			silent++
		}
	}
	s := b.startSection("Start, " + b.size())
	s.Note("medians of %s rounds; x floor: how many times as much as the floor of the same round", b.rounds)
	s.Note("ready: from exec to informers synced, or to the first commit; objects: from exec until all were received from")
	s.Note("the API; kernel: for the batch alone; CPU and memory: %s after ready", rest)
	for _, p := range all {
		p.row(s, floor)
	}
	b.markStart(floor, first, again)
	b.Promise(silent == b.rounds, "restart with all in place, %s: nothing written", b.size())
	return nil
}

// What a start may cost at most, each beside informers alone.
const (
	mostTime    report.Factor = 1.4
	mostCPU     report.Factor = 1.5
	belowMemory report.Factor = 1 // less, because what the proxy does not need is not kept
	// restartMemory is for a restart, which also reads what is in the kernel.
	restartMemory report.Factor = 1.2
)

// markStart checks the marks of a start.
func (b *bench) markStart(floor, first, again *program) {
	if b.filling.Services < standard {
		return // what programs take without any Services is most of it
	}
	mark := func(what string, x report.Factor, kept bool, bound string) {
		b.Mark(kept, what+", "+b.size(), x, "informers alone", bound)
	}
	took, cpu := report.Ratios(first.took, floor.took).Median(), report.Ratios(first.cpu, floor.cpu).Median()
	mark("start to programmed", took, took <= mostTime, "at most "+report.Text(mostTime))
	mark("CPU of a start", cpu, cpu <= mostCPU, "at most "+report.Text(mostCPU))
	memory := func(p *program, below report.Factor) {
		peak := report.Ratios(p.peak, floor.peak).Median()
		mark("peak RSS of "+p.label, peak, peak < below, "below "+report.Text(below))
	}
	memory(first, belowMemory)
	memory(again, restartMemory)
}

func (b *bench) startSection(title string) *report.Section {
	return b.Section(title, "", "ready", "x floor", "objects", "kernel", "CPU", "x floor", "peak RSS", "x floor", "RSS")
}

// row adds the program's row to the table.
func (p *program) row(s *report.Section, floor *program) {
	s.Add(p.label, p.took.Median(), report.Ratios(p.took, floor.took).Median(), p.complete.Median(), p.kernel.Median(),
		p.cpu.Median(), report.Ratios(p.cpu, floor.cpu).Median(),
		p.peak.Median(), report.Ratios(p.peak, floor.peak).Median(), p.resident.Median())
}

// round starts each program once, and reports whether the last one wrote nothing, except
// that it owns the tables now. The API server is slower in some starts than in others, which
// depends on what came before. So informers are the first, the second or the third, in turns.
func (b *bench) round(ctx context.Context, turn int, floor, first, again *program) (unchanged bool, err error) {
	var before uint32
	steps := []func() error{
		func() error {
			if err := b.cleanup(ctx); err != nil {
				return err
			}
			return first.once(ctx)
		},
		func() (err error) {
			if before, err = b.kernel.Generation(); err != nil {
				return err
			}
			return again.once(ctx)
		},
	}
	steps = slices.Insert(steps, turn%(len(steps)+1), func() error { return floor.once(ctx) })
	for _, step := range steps {
		if err := step(); err != nil {
			return false, err
		}
	}
	after, err := b.kernel.Generation()
	if err != nil {
		return false, err
	}
	progress("start: informers %s, kube-vmap %s, again %s", last(floor), last(first), last(again))
	// Where a process owns its tables, a new one takes them over in one batch.
	protects, err := b.kernel.SupportsOwner()
	if protects {
		before++
	}
	return before == after, err
}

// last returns how long the program took to start in the newest round.
func last(p *program) time.Duration { return p.took[len(p.took)-1] }
