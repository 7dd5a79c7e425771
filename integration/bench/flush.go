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

// flush measures how long Services are gone after another program has removed all
// rules of the node, and that it cannot where the tables belong to us.
func (b *bench) flush() error {
	s := b.Section("Another program removes everything: nft flush ruleset, "+standard.String(), "", "p50", "longest", "nft itself", "repair", "bytes")
	s.Note("from the start of nft to when all is programmed again; repair: the kernel's part of it")
	s.Note("again: as soon as the first time is over")
	for _, f := range b.families() {
		want := newCluster(standard, f).all()
		if err := b.flushOf(s, f, want); err != nil {
			return err
		}
		if err := b.flushProtected(s, f, want); err != nil {
			return err
		}
	}
	return nil
}

// flushing is what flushes came to.
type flushing struct {
	took, nft, repair report.Times
	bytes             int
}

func (t *flushing) row(s *report.Section, label string) {
	s.Add(label, t.took.Median(), t.took.At(1), t.nft.Median(), t.repair.Median(), report.Bytes(t.bytes))
}

func (b *bench) flushOf(s *report.Section, family model.Family, want nft.Change) (err error) {
	f, err := newFollower(standard, family, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	times := 6
	if b.quick {
		times = 2
	}
	var apart, again flushing
	for i := range times {
		if i > 0 {
			// Long enough that nothing is left of the last time, and to any moment
			// between two looks.
			time.Sleep(4*time.Second + rand.N(time.Second))
		}
		if err := apart.once(f.running, want); err != nil {
			return err
		}
	}
	if err := again.once(f.running, want); err != nil {
		return err
	}
	apart.row(s, f.label())
	again.row(s, f.label()+", again")
	b.MarkTime("flushed by another program, "+f.label()+", longest of "+report.Text(times), apart.took.At(1),
		"to program it "+report.Text(apart.repair.Median()), 1500*time.Millisecond)
	return nil
}

// once flushes and waits until everything stands again.
func (t *flushing) once(r *running, want nft.Change) error {
	r.forget()
	found := r.await(model.ServiceName{})
	start := time.Now()
	if err := r.flush(); err != nil {
		return err
	}
	t.nft = append(t.nft, time.Since(start))
	c, err := r.found(found)
	if err != nil {
		return err
	}
	t.took, t.repair, t.bytes = append(t.took, c.at.Sub(start)), append(t.repair, c.applied.Kernel), c.applied.Bytes
	return r.whole(config, want)
}

// flush has nft remove all rules of the namespace.
func (r *running) flush() error {
	out, err := r.box.host.Command(context.Background(), "nft", "flush", "ruleset").CombinedOutput()
	if err != nil {
		return fmt.Errorf("nft flush ruleset: %w: %s", err, out)
	}
	return nil
}

// whole reads the kernel and returns an error if anything is not as it should be.
func (r *running) whole(rules nft.Config, want nft.Change) (err error) {
	k, err := r.box.kernel.Share()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	have, err := k.Read()
	if err != nil {
		return err
	}
	if _, batch := nft.Adopt(rules, have, want); len(batch) > 0 {
		return fmt.Errorf("the tables are not what they should be, %d changes away", len(batch))
	}
	return nil
}

// flushProtected flushes tables that belong to the loop's socket.
func (b *bench) flushProtected(s *report.Section, family model.Family, want nft.Change) (err error) {
	rules := config
	rules.Protect = true
	r, err := startLoop(&cluster{size: standard, kind: usual, family: family}, rules, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	before, err := r.box.kernel.Generation()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := r.flush(); err != nil {
		return err
	}
	took := time.Since(start)
	after, err := r.box.kernel.Generation()
	if err != nil {
		return err
	}
	label, broken := nft.FamilyName(family)+", "+standard.String(), r.whole(rules, want)
	s.Add(label+", protected", "", "", took, "", "")
	found := "tables whole"
	if broken != nil {
		found = broken.Error()
	}
	b.Mark(before == after && broken == nil, "flushed by another program, "+label+", protected", found,
		fmt.Sprintf("generation %d, then %d", before, after), "nothing changes")
	return nil
}
