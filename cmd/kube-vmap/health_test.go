package main

import (
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

func TestEachPartHasItsOwnHandle(t *testing.T) {
	k, err := kernel.Open(kernel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h, seen := handles{shared: k}, map[*kernel.Kernel]bool{k: true}
	for range 20 {
		seen[h.take()] = true
	}
	if len(seen) != 21 || h.err != nil {
		t.Errorf("%d handles, %v", len(seen), h.err)
	}
	for handle := range seen {
		if err := handle.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestStatesOfTables(t *testing.T) {
	table := func(change func(*nft.Table)) *nft.Table {
		out := nft.NewTable()
		change(out)
		return out
	}
	for want, have := range map[string]*nft.Table{
		nodestatus.TableMissing: nil,
		nodestatus.TableOpen:    table(func(t *nft.Table) { t.Protected = true }),
		nodestatus.TableOwned:   table(func(t *nft.Table) { t.Protected, t.Owner = true, 7 }),
		nodestatus.TableForeign: table(func(t *nft.Table) { t.Owner, t.Foreign = 8, true }),
		nodestatus.TableDormant: table(func(t *nft.Table) { t.Dormant = true }),
	} {
		got := tableStates(nft.Tables{model.IPv6: have})[model.IPv6]
		if got != (nodestatus.Table{Family: "IPv6", State: want}) {
			t.Errorf("%s: %+v", want, got)
		}
	}
}
