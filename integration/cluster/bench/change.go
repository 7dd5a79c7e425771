package main

import (
	"context"
	"fmt"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/cluster/truth"
)

// Limits for the change of one endpoint.
const (
	promisedLatency = 10 * time.Millisecond
	promisedCPU     = 5 * time.Millisecond
)

// change measures how kube-vmap follows single changes.
func (b *bench) change(ctx context.Context) error {
	s := b.changeSection("Single changes, " + b.size())
	s.Note("%s of each, %s a second; from API write sent to commit in the kernel; floor: to the handler of informers", b.changes, b.rate)
	s.Note("that run at the same time; from answer: from the API server's answer, which may be later; CPU: of a process, for one change")
	p := b.kubeVMap("kube-vmap")
	running, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer running.Kill()
	if _, err := p.ready(ctx, running); err != nil {
		return err
	}
	err = b.follow(ctx, running, 0, b.changes, b.rate, func(k kind, f *following) {
		f.row(s, k.name)
		if k.promised {
			b.promiseChange(k.name, f)
		}
	})
	if err != nil {
		return err
	}
	return b.compareWithTruth(ctx)
}

func (b *bench) changeSection(title string) *report.Section {
	return b.Section(title, "", "p50", "p99", "floor p50", "floor p99", "p50/floor", "from answer p50", "CPU", "floor CPU")
}

func (f *following) row(s *report.Section, label string) {
	s.Add(label, f.committed.Median(), f.committed.At(0.99), f.handled.Median(), f.handled.At(0.99),
		report.Ratio(f.committed.Median(), f.handled.Median()), f.answered.Median(), f.proxyCPU, f.floorCPU)
}

func (b *bench) promiseChange(name string, f *following) {
	p50 := f.committed.Median()
	b.Promise(p50 < promisedLatency, "%s, API write to commit: p50 %s (floor %s), below %s",
		name, p50, f.handled.Median(), promisedLatency)
	b.Promise(f.proxyCPU < promisedCPU, "%s: CPU %s, below %s", name, f.proxyCPU, promisedCPU)
}

// compareWithTruth checks the promise that the rules are those of the API's objects.
func (b *bench) compareWithTruth(ctx context.Context) error {
	t := truth.Truth{Client: b.plane.Client, Config: truth.Config(nodeName), Host: b.lab.Node.Host}
	diff, err := t.Diff(ctx)
	b.Promise(diff == "", "after all changes, the rules are those of the API's objects")
	return err
}

// follow makes n changes of each kind, from the given one on, and measures how the proxy
// and the floor follow.
func (b *bench) follow(ctx context.Context, proxy *timedProcess, from, n int, rate float64, done func(kind, *following)) error {
	p := b.informers()
	floor, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer floor.Kill()
	if _, err := p.ready(ctx, floor); err != nil {
		return err
	}
	for _, k := range kinds {
		changes, err := b.prepare(ctx, k, from, n)
		if err != nil {
			return err
		}
		f := &following{world: b.world, proxy: proxy, floor: floor}
		if err := f.follow(ctx, changes, rate); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		done(k, f)
		progress("%s: p50 %s", k.name, f.committed.Median())
	}
	return floor.end()
}
