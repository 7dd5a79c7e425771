package main

import (
	"errors"
	"runtime"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// restart measures a start that finds everything in place, and counts what is in place:
// only the number of elements grows with that of Services.
func (b *bench) restart() error {
	s := b.Section("Restart with nothing changed", "", "read", "floor", "read/floor", "compile, compare", "write", "total",
		"changes", "sets", "chains", "rules", "elements")
	s.Note("floor: the same elements dumped and thrown away; protected: tables belong to the process's socket,")
	s.Note("and a new process takes possession of them")
	few, _, err := restartOf(s, newCluster(size{10, 10}, model.IPv4), config)
	if err != nil {
		return err
	}
	b.Promise(len(few.changes) == 0, "restart, 10 x 10: nothing to write")
	for _, f := range b.families() {
		for _, protect := range [...]bool{false, true} {
			many, err := b.markRestart(s, f, protect)
			if err != nil {
				return err
			}
			alike := few.sets == many.sets && few.chains == many.chains && few.rules == many.rules
			b.Promise(alike, "%s: as many sets, chains and rules at 10 as at 10,000 Services", nft.FamilyName(f))
		}
	}
	return nil
}

// markRestart restarts at the standard size, and records the marks.
func (b *bench) markRestart(s *report.Section, f model.Family, protect bool) (tableCounts, error) {
	c, rules := newCluster(standard, f), config
	rules.Protect = protect
	o, took, err := restartOf(s, c, rules)
	if err != nil {
		return o, err
	}
	what, writes := "restart, "+c.label(), 0
	if protect {
		what, writes = what+", protected", len(model.Families)
	}
	owning := 0
	for _, op := range o.changes {
		if _, ok := op.(nft.AddTable); ok {
			owning++
		}
	}
	b.Mark(len(o.changes) == writes && owning == writes, what+", writes", len(o.changes),
		report.Text(owning)+" to own the tables", "exactly "+report.Text(writes))
	b.MarkTime(what, took, report.Text(o.elements)+" elements", time.Second)
	return o, nil
}

// tableCounts are the numbers of objects in all tables, and what a restart would change.
type tableCounts struct {
	sets, chains, rules, elements int
	changes                       nft.Batch
}

// restarts is how often a start is repeated.
const restarts = 5

// restartOf starts several times, each time as a new process would, and returns what is
// in the tables and how long a start took.
func restartOf(s *report.Section, c *cluster, rules nft.Config) (o tableCounts, took time.Duration, err error) {
	want := c.all()
	err = inSandbox(func(box *sandbox) error {
		if err := (&restartTimes{}).start(box, rules, want); err != nil {
			return err
		}
		var r restartTimes
		var floor report.Times
		for range restarts {
			runtime.GC()
			if err := r.start(box, rules, want); err != nil {
				return err
			}
			took, err := box.raw.dump(r.sets)
			if err != nil {
				return err
			}
			floor = append(floor, took)
		}
		o, took = r.objects, r.total.Median()
		label := c.label()
		if rules.Protect {
			label += ", protected"
		}
		s.Add(label, r.read.Median(), floor.Median(), report.Ratio(r.read.Median(), floor.Median()),
			r.compile.Median(), r.write.Median(), took, len(o.changes),
			o.sets, o.chains, o.rules, o.elements)
		return nil
	})
	return o, took, err
}

// restartTimes are the times of starts.
type restartTimes struct {
	read, compile, write, total report.Times
	objects                     tableCounts
	sets                        []nft.SetID
}

// start opens the kernel, reads the tables and writes what is missing.
func (r *restartTimes) start(box *sandbox, rules nft.Config, want nft.Change) (err error) {
	start := time.Now()
	k, err := box.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	have, err := k.Read()
	if err != nil {
		return err
	}
	read := time.Since(start)
	o := countObjects(have)
	r.sets = setsOf(have)
	compiling := time.Now()
	_, o.changes = nft.Adopt(rules, have, want)
	compile := time.Since(compiling)
	writing := time.Now()
	if len(o.changes) > 0 {
		_, err = k.Apply(o.changes)
	}
	write := time.Since(writing)
	r.objects = o
	r.read, r.compile, r.write = append(r.read, read), append(r.compile, compile), append(r.write, write)
	r.total = append(r.total, read+compile+write)
	return err
}

// countObjects counts what the tables of both families hold.
func countObjects(have nft.Tables) (o tableCounts) {
	for _, t := range have {
		if t == nil {
			continue
		}
		o.chains += len(t.Chains)
		o.sets += len(t.Sets)
		for _, c := range t.Chains {
			o.rules += len(c.Rules)
		}
		for _, set := range t.Sets {
			o.elements += len(set.Elements)
		}
	}
	return o
}

// setsOf lists the sets that the tables hold.
func setsOf(have nft.Tables) (sets []nft.SetID) {
	for _, f := range model.Families {
		if have[f] == nil {
			continue
		}
		for name := range have[f].Sets {
			if id, known := nft.SetNamed(f, name); known {
				sets = append(sets, id)
			}
		}
	}
	return sets
}
