package top

import (
	"cmp"
	"strconv"
	"strings"
)

// column is a column of a table.
type column struct {
	title string
	word  string // for --sort
	// weight decides which columns stay if there is no room for all: the heaviest.
	weight int
	// width is that of a number; zero for text, which takes what it needs.
	width int
	// name is the index of the row's name that a column of text shows, or negative.
	name int
	// down reports whether the greatest comes first.
	down    bool
	text    func(*row) string
	compare func(a, b *row) int
	// shown reports whether the column has anything to show.
	shown func(*sheet) bool
}

// overviewColumns returns the columns of Services.
func overviewColumns() []column {
	return []column{
		nameColumn("NAMESPACE", "namespace", 0, 5),
		nameColumn("SERVICE", "service", 1, 9),
		rateColumn(), activeColumn(), connectionsColumn(),
		{
			title: "ENDPOINTS", word: "endpoints", weight: 3, width: 10, name: -1, down: true,
			text:    func(r *row) string { return r.endpoints },
			compare: func(a, b *row) int { return cmp.Compare(a.used, b.used) },
			shown:   func(s *sheet) bool { return s.endpoints },
		},
		statusColumn(),
	}
}

// detailColumns returns the columns of frontends and endpoints.
func detailColumns() []column {
	return []column{
		nameColumn("PORT", "port", 0, 6),
		nameColumn("KIND", "kind", 1, 5),
		nameColumn("ADDRESS", "address", 2, 9),
		rateColumn(), activeColumn(), connectionsColumn(),
		statusColumn(),
	}
}

func always(*sheet) bool { return true }

func counted(s *sheet) bool { return s.counted }

func nameColumn(title, word string, name, weight int) column {
	return column{
		title: title, word: word, weight: weight, name: name, shown: always,
		text:    func(r *row) string { return r.names[name] },
		compare: func(a, b *row) int { return strings.Compare(a.names[name], b.names[name]) },
	}
}

func rateColumn() column {
	return column{
		title: "CONN/S", word: "rate", weight: 8, width: 9, name: -1, down: true, shown: counted,
		text:    func(r *row) string { return rateText(r.rate, r.rated) },
		compare: func(a, b *row) int { return cmp.Compare(a.rate, b.rate) },
	}
}

func activeColumn() column {
	return column{
		title: "ACTIVE", word: "active", weight: 7, width: 8, name: -1, down: true, shown: always,
		text:    func(r *row) string { return strconv.Itoa(r.active) },
		compare: func(a, b *row) int { return cmp.Compare(a.active, b.active) },
	}
}

func connectionsColumn() column {
	return column{
		title: "CONNECTIONS", word: "connections", weight: 2, width: 13, name: -1, down: true, shown: counted,
		text:    func(r *row) string { return strconv.FormatUint(r.connections, 10) },
		compare: func(a, b *row) int { return cmp.Compare(a.connections, b.connections) },
	}
}

func statusColumn() column {
	return column{
		title: "STATUS", word: "status", weight: 4, name: -1, down: true, shown: always,
		text: func(r *row) string { return r.status },
		compare: func(a, b *row) int {
			return cmp.Or(cmp.Compare(a.severity, b.severity), strings.Compare(b.status, a.status))
		},
	}
}

// sorts returns the values of Config.Sort.
func sorts() []string {
	var out []string
	for _, c := range overviewColumns() {
		out = append(out, c.word)
	}
	return out
}

// columnOf returns the index of a column by its word, or -1.
func columnOf(columns []column, word string) int {
	for i := range columns {
		if columns[i].word == word {
			return i
		}
	}
	return -1
}
