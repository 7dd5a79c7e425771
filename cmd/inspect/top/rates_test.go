package top

import (
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/top/toptest"
)

// webRate returns the rate of the only Service, or -1 if it is not known.
func webRate(rates map[serviceName]float64) float64 {
	if rate, known := rates[serviceName{"default", "web"}]; known {
		return rate
	}
	return -1
}

func web(n uint64) nodestatus.Service { return toptest.Service("default", "web", n, 0) }

func TestRateIsPerSecondOfDocumentTime(t *testing.T) {
	other, reset, uncounted := web(0), web(104), toptest.Document(1, web(5))
	other.Ports[3].Name = "another"
	reset.Ports[2].Connections = 3
	uncounted.Counted = false
	for name, c := range map[string]struct {
		before, after *nodestatus.Document
		want          float64
	}{
		"after a second":                     {toptest.Document(0, web(10)), toptest.Document(1, web(15)), 5 * toptest.PortsEach},
		"after half a second":                {toptest.Document(0, web(10)), toptest.Document(0.5, web(15)), 10 * toptest.PortsEach},
		"with nothing new":                   {toptest.Document(0, web(10)), toptest.Document(2, web(10)), 0},
		"when all counters began again":      {toptest.Document(0, web(100)), toptest.Document(1, web(7)), 7 * toptest.PortsEach},
		"when one counter began again":       {toptest.Document(0, web(100)), toptest.Document(1, reset), 4*(toptest.PortsEach-1) + 3},
		"of a Service that was not there":    {toptest.Document(0), toptest.Document(1, web(1000)), -1},
		"of a port that was not there":       {toptest.Document(0, other), toptest.Document(1, web(3)), 3 * (toptest.PortsEach - 1)},
		"when the clock went back":           {toptest.Document(5, web(10)), toptest.Document(1, web(15)), -1},
		"when connections are not counted":   {toptest.Document(0, web(0)), uncounted, -1},
		"when connections were not counted":  {uncounted, toptest.Document(2, web(9)), -1},
		"of the first document of a process": {toptest.Document(0), toptest.Document(0, web(9)), -1},
	} {
		r := readings{}
		r.rates(c.before)
		if got := webRate(r.rates(c.after)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestRateStaysUntilTheNextRead has a node that reads its counters once per second and is
// asked more often.
func TestRateStaysUntilTheNextRead(t *testing.T) {
	r := readings{}
	for i, step := range []struct {
		asked, read float64
		count       uint64
		want        float64
	}{{0, 0, 100, -1}, {0.4, 0, 100, -1}, {1, 1, 105, 30}, {1.9, 1, 105, 30}, {2.2, 2, 105, 0}, {5, 4, 113, 24}} {
		d := toptest.Document(step.asked, web(step.count))
		d.CountedAt = toptest.Document(step.read).Time
		if got := webRate(r.rates(d)); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

// TestNodesAreAddedUp has two nodes that read their counters at different times, and one of
// them misses a query.
func TestNodesAreAddedUp(t *testing.T) {
	documents := func(after float64) []*nodestatus.Document {
		one, two := toptest.Three(after), toptest.Three(2*after+0.5)
		two.Node = "node-2"
		two.Services[0].Problems = []nodestatus.Problem{{Object: "Service a/slow", Reason: "Unusable", Text: "so it is"}}
		return []*nodestatus.Document{one, two}
	}
	r := readings{}
	for i, step := range []struct {
		answer Answer
		rate   string
	}{
		{Answer{Documents: documents(0)}, ": - connections/s"},
		{Answer{Documents: documents(10)}, "2 nodes, 3 Services: 180.0 connections/s, 72 active"},
		{Answer{Documents: documents(20)[:1], Failed: []string{"node-2 is gone", "b", "c", "d", "e"}}, "1 node, 3 Services: 90.0 connections/s"},
		{Answer{Documents: documents(30)}, ": 180.0 connections/s"},
	} {
		table := newTable(step.answer, r)
		if got := table.text(); !strings.Contains(got, step.rate) {
			t.Errorf("answer %d: %s, want %s", i, got, step.rate)
		}
		if failed := table.warnings(); len(step.answer.Failed) > 0 && (len(failed) != 4 || failed[0] != "node-2 is gone" || failed[3] != "and 2 more nodes") {
			t.Errorf("five nodes do not answer: %q", failed)
		}
		if row := table.rows[0]; len(step.answer.Documents) > 1 && (row.State != "Unusable" || row.Problem != "so it is") {
			t.Errorf("the worst state is not shown: %+v", row)
		}
	}
}
