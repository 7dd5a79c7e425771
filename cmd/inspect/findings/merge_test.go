package findings_test

import (
	"fmt"
	"slices"
	"testing"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/status"
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

// TestTakeoversOfNodesAreOneFindingEach has 500 nodes beside another proxy and one in its
// probation, each of whose health has it, too.
func TestTakeoversOfNodesAreOneFindingEach(t *testing.T) {
	var m findings.Merger
	for i := range 501 {
		node, reason, state := fmt.Sprint("node-", i), status.ReasonOtherProxy, status.TakeoverOtherProxy
		if i == 500 {
			reason, state = status.ReasonProbation, status.TakeoverProbation
		}
		text := reason + " of this node"
		m.Add(node, findings.Of(&status.Document{
			Node: node, Ready: true, Health: &status.Health{Takeover: status.Takeover{State: state, Text: text}},
			Problems: []status.Problem{{Object: "Node " + node, Reason: reason, Text: text}},
		}))
	}
	got := m.Sorted()
	if len(got) != 2 || got[0].Object != "500 Nodes" || len(got[0].Nodes) != 500 || !got[0].IsProblem() || got[1].Object != "Node node-500" || got[1].IsProblem() {
		t.Errorf("%d findings, the first %+v", len(got), got[0].Finding)
	}
}
