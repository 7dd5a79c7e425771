package main

import (
	"runtime"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// restart measures a start that finds everything in place, and counts what is
// in place: the law says that only elements grow with Services.
func (b *bench) restart() error {
	s := b.section("Restart with nothing changed", "", "read", "floor", "read/floor", "compile, compare", "total",
		"changes", "sets", "chains", "rules", "elements")
	s.note("floor: the same elements dumped and thrown away")
	var found []objects
	for _, z := range []size{{10, 10}, standard} {
		o, err := restartOf(s, newCluster(z, model.IPv4))
		if err != nil {
			return err
		}
		found = append(found, o)
		b.promise(o.changes == 0, "restart, %s: nothing to write", z)
	}
	few, many := found[0], found[1]
	few.elements, many.elements = 0, 0
	b.promise(few == many, "as many sets, chains and rules at 10 as at 10,000 Services")
	return nil
}

// objects is what tables hold, and how much of it a restart would change.
type objects struct{ sets, chains, rules, elements, changes int }

// restarts is how often a start is repeated.
const restarts = 5

func restartOf(s *section, c *cluster) (o objects, err error) {
	want := c.all()
	err = inSandbox(func(box *sandbox) error {
		_, batch := nft.Adopt(config, nft.Tables{}, want)
		if _, err := box.kernel.Apply(batch); err != nil {
			return err
		}
		var read, compile, total, floor times
		for range restarts {
			runtime.GC()
			start := time.Now()
			have, err := box.kernel.Read()
			if err != nil {
				return err
			}
			middle := time.Now()
			o = count(have)
			sets := setsOf(have)
			compiling := time.Now()
			_, batch := nft.Adopt(config, have, want)
			end := time.Now()
			o.changes = len(batch)
			read, compile = append(read, middle.Sub(start)), append(compile, end.Sub(compiling))
			total = append(total, middle.Sub(start)+end.Sub(compiling))
			took, err := box.bare.dump(sets)
			if err != nil {
				return err
			}
			floor = append(floor, took)
		}
		s.add(c.label(), brief(read.median()), brief(floor.median()), factor(ratio(read.median(), floor.median())),
			brief(compile.median()), brief(total.median()), thousands(o.changes),
			thousands(o.sets), thousands(o.chains), thousands(o.rules), thousands(o.elements))
		return nil
	})
	return o, err
}

// count counts what the tables of both families hold.
func count(have nft.Tables) (o objects) {
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
