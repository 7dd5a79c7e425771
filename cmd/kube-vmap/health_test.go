package main

import (
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft"
)

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
