package findings_test

import (
	"fmt"
	"slices"
	"testing"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
)

func TestTextsNameTheNodes(t *testing.T) {
	local := findings.Finding{Object: "Service shop/web", Reason: findings.NoneLocal, Field: findings.FieldInternalLocal, Args: nodestatus.Args{All: 1}}
	for _, tc := range []struct {
		all, with int
		want      string
	}{
		{1, 1, "n1"},
		{2, 1, "n1"},
		{3, 2, "n1, n2"},
		{3, 3, "all 3 nodes"},
		{12, 3, "n1, n2, n3"},
		{12, 10, "all nodes but n11, n12"},
		{12, 8, "n1, n2, n3 and 5 more nodes"},
	} {
		var m findings.Merger
		for i := tc.all; i > 0; i-- { // they answer in any order
			var list []findings.Finding
			if i <= tc.with {
				list = append(list, local)
			}
			m.Add(fmt.Sprintf("n%d", i), list)
		}
		got := m.Sorted()
		want := "connections of clients on " + tc.want + " are dropped: the only endpoint that serves is on another node"
		if len(got) != 1 || got[0].Sentence() != want || len(got[0].Nodes) != tc.with || got[0].Variants != nil {
			t.Errorf("%d of %d nodes: %+v, want %q", tc.with, tc.all, got, want)
		}
	}
}

func TestNamesAreInTheOrderOfNumbers(t *testing.T) {
	names := []string{"node-10", "node-2", "a", "node-1", "node-2-b", "10.0.0.9", "10.0.0.10", ""}
	slices.SortFunc(names, findings.CompareNames)
	if want := []string{"", "10.0.0.9", "10.0.0.10", "a", "node-1", "node-2", "node-2-b", "node-10"}; !slices.Equal(names, want) {
		t.Errorf("the order is %q", names)
	}
}
