package ruleset

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
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

// enough readings of one moment, and readings that another transaction interrupted, are tested.
const enough = 50

// bystanders is the number of Services that do not change during the test.
const bystanders = 30

// Another program moves an element from one map to another and back, in one transaction
// each time. A consistent reading has the element once.
func TestReadIsConsistent(t *testing.T) {
	m := newMachine(t)
	start(m, services(bystanders))
	from := nft.SetID{Family: model.IPv4, Kind: nft.SetEndpoints}
	to := nft.SetID{Family: model.IPv6, Kind: nft.SetEndpoints, Slot: 2}
	one := func(f model.Family) []nft.Element {
		return []nft.Element{{Key: key(web(f, 500)), Value: nft.Value{Endpoint: endpoint(f, 500)}}}
	}
	there := nft.Batch{nft.AddElements{Set: to, Elements: one(model.IPv6)}, nft.DeleteElements{Set: from, Elements: one(model.IPv4)}}
	back := nft.Batch{nft.AddElements{Set: from, Elements: one(model.IPv4)}, nft.DeleteElements{Set: to, Elements: one(model.IPv6)}}
	m.apply(back[:1])

	other, done := m.open(), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { done <- move(ctx, other, there, back) }()
	for whole, mixed := 0, 0; whole < enough || mixed < enough; {
		tables, one, err := m.kernel.ReadOnce()
		if !one {
			mixed++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		whole++
		checkOnce(t, tables, from, to)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	checkOnce(t, m.read(), from, to)
}

// move applies the batches in turn, with pauses of any length: else it might keep step with those
// who read.
func move(ctx context.Context, k *kernel.Kernel, batches ...nft.Batch) error {
	for ctx.Err() == nil {
		for _, b := range batches {
			if _, err := k.Apply(b); err != nil {
				return err
			}
			<-time.After(rand.N(time.Millisecond << rand.IntN(8)))
		}
	}
	return nil
}

func checkOnce(t *testing.T, tables nft.Tables, sets ...nft.SetID) {
	t.Helper()
	n := 0
	for _, id := range sets {
		n += len(tables[id.Family].Sets[id.Name()].Elements)
	}
	if want := bystanders*len(sets) + 1; n != want {
		t.Fatalf("%d elements are read, want %d", n, want)
	}
}
