package top

import (
	"slices"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top/toptest"
)

func sample() *Sheet {
	one, two := toptest.Different()
	return sheetOf(two, serviceRows, sheetOf(one, serviceRows, nil))
}

// sheetOf returns the sheet of one node's document.
func sheetOf(d *status.Document, rows func(*status.Document) []Row, before *Sheet) *Sheet {
	return newSheet(Answer{Documents: []*status.Document{d}}, rows, before)
}

// names returns the names of rows.
func names(rows []*Row) string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Names[1])
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
			got := names(arrange(sample(), columns, Order{columnOf(columns, word), backward}, ""))
			if got != want[n] {
				t.Errorf("by %s (backward: %v): %s, want %s", word, backward, got, want[n])
			}
		}
	}
}

func TestEndpointsAreBelowFrontends(t *testing.T) {
	columns := detailColumns()
	s := sheetOf(toptest.Document(0, toptest.Service("a", "web", 1, 1)), detailRows, nil)
	for i := range columns {
		for _, backward := range []bool{false, true} {
			rows := arrange(s, columns, Order{i, backward}, "")
			if len(rows) != 4*toptest.PortsEach || !slices.IsSortedFunc(rows, func(a, b *Row) int { return a.group - b.group }) {
				t.Errorf("by %s (backward: %v) they are mixed", columns[i].Title, backward)
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
		if got := names(arrange(sample(), columns, Order{Column: 2}, text)); got != want {
			t.Errorf("%q finds %q, want %q", text, got, want)
		}
	}
}
