package findings_test

import (
	"fmt"
	"slices"
	"testing"

	"kube-vmap/cmd/inspect/findings"
)

func TestTextsNameTheNodes(t *testing.T) {
	local := findings.Finding{Object: "Service shop/web", Reason: findings.NoneLocal, Text: "connections of clients on this node are dropped"}
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
		if want := "connections of clients on " + tc.want + " are dropped"; len(got) != 1 || got[0].Text != want || len(got[0].Nodes) != tc.with || got[0].Texts != nil {
			t.Errorf("%d of %d nodes: %+v, want %q", tc.with, tc.all, got, want)
		}
	}
}

// TestTextsThatDifferAreKept has nodes that count other endpoints, and some that only count
// other connections.
func TestTextsThatDifferAreKept(t *testing.T) {
	refuses := func(endpoints int, times string) []findings.Finding {
		return []findings.Finding{{Object: "Service shop/web", Reason: findings.Refuses, Text: fmt.Sprintf("%d of 3 endpoints answer, %s within the observation: x", endpoints, times)}}
	}
	var m findings.Merger
	m.Add("a", refuses(1, "once"))
	m.Add("b", refuses(2, "7 times"))
	m.Add("c", refuses(2, "8 times"))
	m.Add("d", nil)
	got := m.Sorted()
	if len(got) != 1 || got[0].Text != "2 of 3 endpoints answer: x" || !slices.Equal(got[0].Nodes, []string{"a", "b", "c"}) || len(got[0].Texts) != 2 ||
		got[0].Texts[1].Text != "1 of 3 endpoints answer, once within the observation: x" || !slices.Equal(got[0].Texts[1].Nodes, []string{"a"}) {
		t.Errorf("%+v", got)
	}
}
