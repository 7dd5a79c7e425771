package findings_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// TestVariantsAreKept has nodes that count other endpoints, and some that only count other
// connections.
func TestVariantsAreKept(t *testing.T) {
	refuses := func(endpoints, times int) []findings.Finding {
		return []findings.Finding{{Object: "Service shop/web", Reason: nodestatus.ReasonRefuses, Args: nodestatus.Args{
			Hit: endpoints, All: 3, Count: times, Number: 80, Named: []string{"x"}, NamedOf: 1,
		}}}
	}
	var m findings.Merger
	m.Add("a", refuses(1, 1))
	m.Add("b", refuses(2, 7))
	m.Add("c", refuses(2, 8))
	m.Add("d", nil)
	got := m.Sorted()
	const want = "2 of 3 endpoints answer with a reset: no program listens on port 80 there, or a network policy rejects: x (on b, c); " +
		"1 of 3 endpoints answers with a reset, once within the observation: no program listens on port 80 there, or a network policy rejects: x (on a)"
	if len(got) != 1 || got[0].String() != want || !slices.Equal(got[0].Nodes, []string{"a", "b", "c"}) || len(got[0].Variants) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestUnresponsiveEndpointsAreMergedEach has nodes that found the same at other times.
func TestUnresponsiveEndpointsAreMergedEach(t *testing.T) {
	unresponsive := func(address, reason string, seconds, clients, connections, probes int) findings.Finding {
		return findings.Finding{
			Object: "Service shop/web", Reason: reason, Field: address,
			Args: nodestatus.Args{
				Names: []string{address}, Message: "n3", Clients: clients, Count: connections, Number: probes,
				Since: then.Add(time.Duration(seconds) * time.Second),
			},
		}
	}
	const known, possibly = model.ProblemEndpointUnresponsive, model.ProblemEndpointPossiblyUnresponsive
	var m findings.Merger
	m.Add("a", []findings.Finding{
		unresponsive("v", possibly, 2, 1, 1, 2), unresponsive("w", known, 2, 0, 0, 3),
		unresponsive("x", known, 2, 1, 1, 2), unresponsive("y", known, 2, 1, 1, 2), unresponsive("z", known, 3, 2, 7, 2),
	})
	m.Add("b", []findings.Finding{
		unresponsive("v", possibly, 1, 2, 2, 2), unresponsive("x", known, 1, 1, 7, 2), unresponsive("z", known, 3, 2, 7, 9),
	})
	m.Add("d", nil)
	var got []string
	for _, f := range m.Sorted() {
		got = append(got, f.Object+": "+f.String())
	}
	want := []string{
		"Service shop/web: clients get no reply from endpoint v on node n3 since 2026-03-01T12:00:01Z; " +
			"no probe of a, b is known to reach it, so whether it is unresponsive is not known",
		"Service shop/web: endpoint w on node n3: no reply to 3 probes since 2026-03-01T12:00:02Z",
		"Service shop/web: endpoint x on node n3: no reply since 2026-03-01T12:00:01Z",
		"Service shop/web: endpoint y on node n3: no reply to 1 connection of 1 client and to 2 probes since 2026-03-01T12:00:02Z",
		"Service shop/web: endpoint z on node n3: no reply since 2026-03-01T12:00:03Z",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTakeoversOfNodesAreOneFindingEach has 500 nodes with another proxy and one in its
// probation, each of whose health has it, too.
func TestTakeoversOfNodesAreOneFindingEach(t *testing.T) {
	var m findings.Merger
	for i := range 501 {
		node, reason, state := fmt.Sprint("node-", i), nodestatus.ReasonOtherProxy, nodestatus.TakeoverOtherProxy
		if i == 500 {
			reason, state = nodestatus.ReasonProbation, nodestatus.TakeoverProbation
		}
		text := reason + " of this node"
		m.Add(node, findings.Of(&nodestatus.Document{
			Node: node, Ready: true, Health: &nodestatus.Health{Takeover: nodestatus.Takeover{State: state, Text: text}},
			Problems: []nodestatus.Problem{{Object: "Node " + node, Reason: reason, Text: text}},
		}))
	}
	got := m.Sorted()
	if len(got) != 2 || got[0].Object != "500 Nodes" || len(got[0].Nodes) != 500 || !got[0].IsProblem() || got[1].Object != "Node node-500" || got[1].IsProblem() {
		t.Errorf("%d findings, the first %+v", len(got), got[0].Finding)
	}
}

func TestTextsNameTheNodes(t *testing.T) {
	local := findings.Finding{Object: "Service shop/web", Reason: nodestatus.ReasonNoneLocal, Field: nodestatus.FieldInternalLocal, Args: nodestatus.Args{All: 1}}
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
