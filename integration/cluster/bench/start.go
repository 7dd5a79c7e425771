package main

import "context"

// starts measures starts: informers alone, kube-vmap with nothing in place, and
// again with all in place.
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
		unchanged, err := b.round(ctx, floor, first, again)
		if err != nil {
			return err
		}
		if unchanged {
			silent++
		}
	}
	s := b.startSection("Start, " + b.size())
	s.note("medians of %d rounds; x floor: how many times as much as the floor of the same round", b.rounds)
	s.note("ready: from exec to informers synced, or to the first commit; objects: from exec until all had come from")
	s.note("the API; kernel: for the batch alone; CPU and memory: as of %s after ready", rest)
	for _, p := range all {
		p.row(s, floor)
	}
	b.promiseStart(floor, first, again)
	b.promise(silent == b.rounds, "restart with all in place: nothing written")
	return nil
}

// promiseStart checks what is promised of a start.
func (b *bench) promiseStart(floor, first, again *program) {
	took := first.took.over(floor.took).median()
	b.promise(took <= 2, "started to programmed within 2 x of informers alone: %s", factor(took))
	if b.services < standard {
		return // what programs take without any Services is most of it
	}
	for _, p := range []*program{first, again} {
		peak := p.peak.over(floor.peak).median()
		b.promise(peak < 1.2, "peak RSS under 1.2 x of informers alone, %s: %s", p.label, factor(peak))
	}
}

func (b *bench) startSection(title string) *section {
	return b.section(title, "", "ready", "x floor", "objects", "kernel", "CPU", "x floor", "peak RSS", "x floor", "RSS")
}

// row adds the program's row to the table.
func (p *program) row(s *section, floor *program) {
	s.add(p.label, p.took.time(0.5), factor(p.took.over(floor.took).median()), p.complete.time(0.5), p.kernel.time(0.5),
		p.cpu.time(0.5), factor(p.cpu.over(floor.cpu).median()),
		megabytes(p.peak.median()), factor(p.peak.over(floor.peak).median()), megabytes(p.resident.median()))
}

// round starts each of them once, and tells whether the last wrote nothing but whose
// the tables are.
func (b *bench) round(ctx context.Context, floor, first, again *program) (unchanged bool, err error) {
	if err := floor.once(ctx); err != nil {
		return false, err
	}
	if err := b.cleanup(ctx); err != nil {
		return false, err
	}
	if err := first.once(ctx); err != nil {
		return false, err
	}
	before, err := b.kernel.Generation()
	if err != nil {
		return false, err
	}
	if err := again.once(ctx); err != nil {
		return false, err
	}
	after, err := b.kernel.Generation()
	if err != nil {
		return false, err
	}
	progress("start: informers %s, kube-vmap %s, again %s", floor.took.last(), first.took.last(), again.took.last())
	// Where tables belong to a process, a new one takes possession of them, once.
	protects, err := b.kernel.Protects()
	if protects {
		before++
	}
	return before == after, err
}
