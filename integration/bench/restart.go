package main

import (
	"errors"
	"runtime"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// restart measures a start that finds everything in place.
func (b *bench) restart() error {
	for _, f := range b.families() {
		for _, protect := range [...]bool{false, true} {
			if err := b.restartOf(newCluster(standard, f), protect); err != nil {
				return err
			}
		}
	}
	return nil
}

// restarts is how often a start is repeated.
const restarts = 5

// restartOf starts several times, each time as a new process would. Tables that are protected
// belong to the process's socket, and a new process takes possession of them.
func (b *bench) restartOf(c *cluster, protect bool) error {
	rules, what, writes := config, "restart, "+c.label(), 0
	if rules.Protect = protect; protect {
		what, writes = what+", protected", len(model.Families)
	}
	want := c.all()
	var reads, totals report.Times
	var changes nft.Batch
	err := inSandbox(func(box *sandbox) error {
		for i := range 1 + restarts {
			runtime.GC()
			read, total, batch, err := box.restart(rules, want)
			if err != nil {
				return err
			}
			if i > 0 { // the first one loads everything
				reads, totals, changes = append(reads, read), append(totals, total), batch
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	owning := 0
	for _, op := range changes {
		if _, ok := op.(nft.AddTable); ok {
			owning++
		}
	}
	b.Mark(len(changes) == writes && owning == writes, what+", writes", len(changes),
		report.Text(owning)+" to own the tables", "exactly "+report.Text(writes))
	b.MarkTime(what, totals.Median(), "to read "+report.Text(reads.Median()), time.Second)
	return nil
}

// restart opens the kernel, reads the tables and writes what is missing.
func (s *sandbox) restart(rules nft.Config, want nft.Change) (read, total time.Duration, changes nft.Batch, err error) {
	start := time.Now()
	k, err := s.open()
	if err != nil {
		return 0, 0, nil, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	have, err := k.Read()
	if err != nil {
		return 0, 0, nil, err
	}
	read = time.Since(start)
	_, changes = nft.Adopt(rules, have, want)
	if len(changes) > 0 {
		_, err = k.Apply(changes)
	}
	return read, time.Since(start), changes, err
}
