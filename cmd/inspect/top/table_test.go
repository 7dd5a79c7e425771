package top

import (
	"testing"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top/toptest"
)

func TestManyServicesAreQueriedBriefly(t *testing.T) {
	for n, brief := range map[int]bool{3: false, manyServices: false, manyServices + 1: true} {
		table := NewOverview(Config{Sort: "rate"})
		if !table.Query().Brief {
			t.Error("the first query is not brief")
		}
		table.Show(table.SheetOf(Answer{Documents: []*status.Document{toptest.Document(0, toptest.Crowd(n, 0)...)}}, nil))
		if got := table.Query().Brief; got != brief {
			t.Errorf("%d Services: the next query is brief: %t", n, got)
		}
	}
}
