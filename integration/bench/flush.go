package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
)

// flush measures how long Services are unreachable after another program has removed all
// rules of the node, from the start of nft to when all is programmed again.
func (b *bench) flush() error {
	for _, f := range b.families() {
		if err := b.flushOf(f); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) flushOf(family model.Family) (err error) {
	f, _, err := startLoop(&cluster{size: standard, serviceKind: clusterIPKind, family: family})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	times := 6
	if b.quick {
		times = 2
	}
	var took, kernel report.Times
	for i := range times {
		if i > 0 {
			// Longer than the loop's backoff, and ending at a random moment between two
			// checks for drift.
			time.Sleep(4*time.Second + rand.N(time.Second))
		}
		c, err := f.follow(f.box.flush)
		if err != nil {
			return err
		}
		took, kernel = append(took, c.took), append(kernel, c.Applied.Kernel)
	}
	b.MarkTime("flushed by another program, "+f.label()+", longest of "+report.Text(times), took.At(1),
		"to program it "+report.Text(kernel.Median()), 1500*time.Millisecond)
	return nil
}

// flush has nft remove all rules of the namespace.
func (s *sandbox) flush() error {
	out, err := s.host.Command(context.Background(), "nft", "flush", "ruleset").CombinedOutput()
	if err != nil {
		return fmt.Errorf("nft flush ruleset: %w: %s", err, out)
	}
	return nil
}
