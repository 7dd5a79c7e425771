package ruleset

import (
	"testing"

	"golang.org/x/sync/errgroup"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// bystanders are Services that nobody touches meanwhile.
const bystanders = 30

// Another program moves an element from one map to another and back, in one
// transaction each time. Whoever reads must see it once.
func TestWhatIsReadIsOfOneMoment(t *testing.T) {
	m := newMachine(t)
	start(m, services(bystanders))
	from := nft.SetID{Family: model.IPv4, Kind: nft.Endpoints}
	to := nft.SetID{Family: model.IPv6, Kind: nft.Endpoints, Slot: 2}
	one := func(f model.Family) []nft.Element {
		return []nft.Element{{Key: key(web(f, 500)), Value: nft.Value{Endpoint: endpoint(f, 500)}}}
	}
	there := nft.Batch{nft.AddElements{Set: to, Elements: one(model.IPv6)}, nft.DeleteElements{Set: from, Elements: one(model.IPv4)}}
	back := nft.Batch{nft.AddElements{Set: from, Elements: one(model.IPv4)}, nft.DeleteElements{Set: to, Elements: one(model.IPv6)}}
	m.apply(back[:1])

	other := m.open()
	var mover errgroup.Group
	mover.Go(func() error {
		for range 500 {
			for _, b := range []nft.Batch{there, back} {
				if _, err := other.Apply(b); err != nil {
					return err
				}
			}
		}
		return nil
	})
	done := make(chan error)
	go func() { done <- mover.Wait() }()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			checkOnce(t, m.read(), from, to)
			return
		default:
			// That the other one is too fast is an answer too.
			if tables, err := m.kernel.Read(); err == nil {
				checkOnce(t, tables, from, to)
			}
		}
	}
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
