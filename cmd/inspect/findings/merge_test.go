package findings_test

import (
	"fmt"
	"slices"
	"testing"

	"kube-vmap/cmd/inspect/findings"
)

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
