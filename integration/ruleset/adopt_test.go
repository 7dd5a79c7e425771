package ruleset

import (
	"testing"

	"kube-vmap/nft"
)

// Rules that nft loaded have no fingerprint, so they are rewritten; sets are equal,
// whichever program filled them, except those that nft declares by typeof, with another
// number for the type of an integer.
func TestAdoptRulesLoadedByNft(t *testing.T) {
	for _, name := range []string{"walk", "kinds", "affinity", "no-detector", "service-cidrs", "service-cidrs-all"} {
		t.Run(name, func(t *testing.T) {
			w := readGolden(t, name).world("frontends")
			loader := loaderOf(t, w)
			loader.mustBeHad(t)
			m := newMachine(t)
			rules, _ := nft.Adopt(w.config, nft.Tables{}, w.all())
			loader.load(m, render(t, rules))
			p, batch := start(m, w)
			for _, op := range batch {
				var id nft.SetID
				switch op := op.(type) {
				case nft.FlushChain, nft.AddRule:
					continue
				case nft.DeleteSet:
					id, _ = nft.SetNamed(op.Family, op.Name)
				case nft.AddSet:
					id = op.Set
				case nft.AddElements:
					id = op.Set
				}
				if !id.Layout().Typeof {
					t.Errorf("adopting it takes: %v", op)
				}
			}
			if _, again := start(m, w); len(again) > 0 {
				t.Errorf("adopting it again takes:\n%s", again)
			}
			p.turn(w.without())
			p.turn(w)
		})
	}
}

func TestProbeLeavesNothing(t *testing.T) {
	m := newMachine(t)
	before, err := m.kernel.Generation()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.kernel.Probe(newWorld().config); err != nil {
		t.Fatal(err)
	}
	after, err := m.kernel.Generation()
	if err != nil {
		t.Fatal(err)
	}
	if o := installed(t).run(m, "", "list", "ruleset"); after != before || o.stdout+o.stderr != "" || o.err != nil {
		t.Errorf("generation %d became %d, and the machine has: %v\n%s%s", before, after, o.err, o.stdout, o.stderr)
	}
}
