package top

import (
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top/toptest"
)

// onNode returns a document of another node.
func onNode(node string, d *status.Document) *status.Document {
	d.Node = node
	return d
}

// TestNodesAreAddedUp has two nodes that read their counters at different times, and one of
// them misses a query.
func TestNodesAreAddedUp(t *testing.T) {
	documents := func(after float64) []*status.Document {
		return []*status.Document{onNode("node-1", toptest.Three(after)), onNode("node-2", toptest.Three(2*after+0.5))}
	}
	table := NewOverview(Config{Sort: "service"})
	var rates []float64
	show := func(a Answer) {
		table.Show(table.SheetOf(a, table.Sheet))
		rates = append(rates, table.Sheet.total.rate)
	}
	show(Answer{Documents: documents(0)})
	show(Answer{Documents: documents(10)})
	if got := plainText(table); !strings.Contains(got, "2 nodes") || !strings.Contains(got, "180.0 conn/s") || !strings.Contains(got, "72 active") {
		t.Errorf("three Services on two nodes, each with 90 connections per second:\n%s", got)
	}
	show(Answer{Documents: documents(20)[:1], Failed: []string{"node-2 does not answer"}})
	if got := plainText(table); !strings.Contains(got, "! node-2 does not answer") {
		t.Errorf("a node is missing:\n%s", got)
	}
	show(Answer{Documents: documents(30)})
	for i, want := range []float64{0, 180, 90, 90} {
		if got := rates[i]; got < want-1e-9 || got > want+1e-9 {
			t.Errorf("rates %v; answer %d: want %v: a node that was missing counts from its next answer on", rates, i, want)
		}
	}
}

// TestDetailHasARowForEachNode has more than one node, and the worst state of them.
func TestDetailHasARowForEachNode(t *testing.T) {
	s := toptest.Service("a", "web", 1, 1)
	bad := toptest.Service("a", "web", 1, 1)
	bad.Problems = []status.Problem{toptest.Problem("a", "web", "so it is")}
	a := Answer{Documents: []*status.Document{onNode("node-1", toptest.Document(0, s)), onNode("node-2", toptest.Document(0, bad))}}
	overview := NewOverview(Config{Sort: "rate"})
	overview.Show(overview.SheetOf(a, nil))
	detail := NewDetail(overview.Shown[0])
	detail.Show(detail.SheetOf(a, nil))
	text := plainText(detail)
	if !strings.Contains(text, "node-1") || !strings.Contains(text, "node-2") || detail.Sheet.state != "! Unusable" {
		t.Errorf("state %q\n%s", detail.Sheet.state, text)
	}
	if n := detail.Sheet.total.connections; n != 2*toptest.PortsEach {
		t.Errorf("%d connections, want those of two nodes", n)
	}
}

func TestManyFailedNodesAreCounted(t *testing.T) {
	a := Answer{Documents: []*status.Document{toptest.Three(0)}, Failed: []string{"a", "b", "c", "d", "e"}}
	table := NewOverview(Config{Sort: "rate"})
	table.Show(table.SheetOf(a, nil))
	if got := plainText(table); strings.Count(got, "\n! ") != 4 || !strings.Contains(got, "! and 2 more nodes") {
		t.Errorf("five nodes do not answer:\n%s", got)
	}
}
