package top

import (
	"slices"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/status"
)

// sampleDocuments returns two documents in which every column has another order.
func sampleDocuments() (before, after *status.Document) {
	broken := service("c", "broken", 50, 1)
	broken.Problems = []status.Problem{{Object: "Service c/broken", Reason: "AddressConflict", Text: "10.96.0.9 is held by a/web"}}
	idle := service("b", "idle", 7, 0)
	for i := range idle.Ports {
		idle.Ports[i].Endpoints = nil
		for k := range idle.Ports[i].Frontends {
			idle.Ports[i].Frontends[k].Verdict = status.VerdictReject
		}
	}
	one := document(0, service("a", "web", 0, 9), service("b", "Zeta", 10, 3), idle, broken)
	two := document(1, service("a", "web", 1, 9), service("b", "Zeta", 13, 3), idle, broken)
	return one, two
}

func sample() *sheet {
	one, two := sampleDocuments()
	return newSheet(two, serviceRows, newSheet(one, serviceRows, nil))
}

// names returns the names of rows.
func names(rows []*row) string {
	var out []string
	for _, r := range rows {
		out = append(out, r.names[1])
	}
	return strings.Join(out, " ")
}

func TestRowsAreSortedByEachColumnBothWays(t *testing.T) {
	for word, want := range map[string][2]string{
		"namespace":   {"web Zeta idle broken", "broken Zeta idle web"},
		"service":     {"Zeta broken idle web", "web idle broken Zeta"},
		"rate":        {"Zeta web idle broken", "idle broken web Zeta"},
		"active":      {"web Zeta broken idle", "idle broken Zeta web"},
		"connections": {"broken Zeta idle web", "web idle Zeta broken"},
		"endpoints":   {"web Zeta broken idle", "idle web Zeta broken"},
		"status":      {"broken idle web Zeta", "web Zeta idle broken"},
	} {
		columns := overviewColumns()
		for n, backward := range []bool{false, true} {
			got := names(arrange(sample(), columns, order{columnOf(columns, word), backward}, ""))
			if got != want[n] {
				t.Errorf("by %s (backward: %v): %s, want %s", word, backward, got, want[n])
			}
		}
	}
}

func TestEndpointsAreBelowFrontends(t *testing.T) {
	columns := detailColumns()
	s := newSheet(document(0, service("a", "web", 1, 1)), detailRows, nil)
	for i := range columns {
		for _, backward := range []bool{false, true} {
			rows := arrange(s, columns, order{i, backward}, "")
			if len(rows) != 4*portsEach || !slices.IsSortedFunc(rows, func(a, b *row) int { return a.group - b.group }) {
				t.Errorf("by %s (backward: %v) they are mixed", columns[i].title, backward)
			}
		}
	}
}

func TestSearchFindsNamesAndProblems(t *testing.T) {
	columns := overviewColumns()
	for text, want := range map[string]string{
		"":            "Zeta web idle broken",
		"  ":          "Zeta web idle broken",
		"web":         "web broken", // its problem mentions it
		"zeta":        "Zeta",
		"B/":          "Zeta idle",
		"b/zeta":      "Zeta",
		"noendpoints": "idle",
		"ok":          "broken", // states that are OK are not searched
		"none such":   "",
	} {
		if got := names(arrange(sample(), columns, order{column: 2}, text)); got != want {
			t.Errorf("%q finds %q, want %q", text, got, want)
		}
	}
}
