package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// flush measures how long Services are unreachable after another program has removed all
// rules of the node.
func (b *bench) flush() error {
	s := b.Section("Another program removes everything: nft flush ruleset, "+standard.String(), "", "p50", "longest", "nft itself", "repair", "bytes")
	s.Note("from the start of nft to when all is programmed again; repair: the kernel's part of it")
	s.Note("again: immediately after a repair")
	for _, f := range b.families() {
		want := newCluster(standard, f).all()
		if err := b.flushOf(s, f, want); err != nil {
			return err
		}
	}
	return nil
}

// flushTimes are the times of flushes.
type flushTimes struct {
	took, nft, repair report.Times
	bytes             int
}

func (t *flushTimes) row(s *report.Section, label string) {
	s.Add(label, t.took.Median(), t.took.At(1), t.nft.Median(), t.repair.Median(), report.Bytes(t.bytes))
}

func (b *bench) flushOf(s *report.Section, family model.Family, want nft.Change) (err error) {
	f, err := newLoopBench(&cluster{size: standard, serviceKind: clusterIPKind, family: family})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	times := 6
	if b.quick {
		times = 2
	}
	var apart, again flushTimes
	for i := range times {
		if i > 0 {
			// Longer than the loop's backoff, and ending at a random moment between two
			// checks for drift.
			time.Sleep(4*time.Second + rand.N(time.Second))
		}
		if err := apart.once(f.runningLoop, want); err != nil {
			return err
		}
	}
	if err := again.once(f.runningLoop, want); err != nil {
		return err
	}
	apart.row(s, f.label())
	again.row(s, f.label()+", again")
	b.MarkTime("flushed by another program, "+f.label()+", longest of "+report.Text(times), apart.took.At(1),
		"to program it "+report.Text(apart.repair.Median()), 1500*time.Millisecond)
	return nil
}

// once flushes and waits until everything is programmed again.
func (t *flushTimes) once(r *runningLoop, want nft.Change) error {
	r.dropReport()
	found := r.await(model.ServiceName{})
	start := time.Now()
	if err := r.flush(); err != nil {
		return err
	}
	t.nft = append(t.nft, time.Since(start))
	c, err := r.awaitBatch(found)
	if err != nil {
		return err
	}
	t.took, t.repair, t.bytes = append(t.took, c.at.Sub(start)), append(t.repair, c.applied.Kernel), c.applied.Bytes
	return r.checkTables(want)
}

// flush has nft remove all rules of the namespace.
func (r *runningLoop) flush() error {
	out, err := r.box.host.Command(context.Background(), "nft", "flush", "ruleset").CombinedOutput()
	if err != nil {
		return fmt.Errorf("nft flush ruleset: %w: %s", err, out)
	}
	return nil
}

// checkTables reads the kernel and returns an error if anything differs from want.
func (r *runningLoop) checkTables(want nft.Change) (err error) {
	k, err := r.box.kernel.Share()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	have, err := k.Read()
	if err != nil {
		return err
	}
	if _, batch := nft.Adopt(config, have, want); len(batch) > 0 {
		return fmt.Errorf("the tables are not what they should be, %d changes away", len(batch))
	}
	return nil
}
