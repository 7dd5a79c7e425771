package top

import (
	"cmp"
	"strconv"
	"strings"
)

// Column is a column of a table.
type Column struct {
	Title string
	word  string // for --sort
	// weight decides which columns stay if there is no room for all: the heaviest.
	weight int
	// width is that of a number; zero for text, which takes what it needs.
	width int
	// name is the index of the row's name that a column of text shows, or negative.
	name int
	// down reports whether the greatest comes first.
	down    bool
	Text    func(*Row) string
	compare func(a, b *Row) int
	// Shown reports whether the column has anything to show.
	shown func(*Sheet) bool
}

// Pad pads a text of the column with spaces, numbers on the left.
func (c *Column) Pad(text string, columns int) string { return pad(text, columns, c.width > 0) }

// overviewColumns returns the columns of Services.
func overviewColumns() []Column {
	return []Column{
		nameColumn("NAMESPACE", "namespace", 0, 5),
		nameColumn("SERVICE", "service", 1, 9),
		rateColumn(), activeColumn(), fastPathColumn(), connectionsColumn(),
		{
			Title: "ENDPOINTS", word: "endpoints", weight: 3, width: 10, name: -1, down: true,
			Text:    func(r *Row) string { return r.endpoints },
			compare: func(a, b *Row) int { return cmp.Compare(a.used, b.used) },
			shown:   func(s *Sheet) bool { return s.endpoints },
		},
		statusColumn(),
	}
}

// detailColumns returns the columns of frontends and endpoints.
func detailColumns() []Column {
	return []Column{
		nameColumn("PORT", "port", 0, 6),
		nameColumn("KIND", "kind", 1, 5),
		nameColumn("ADDRESS", "address", 2, 9),
		rateColumn(), activeColumn(), fastPathColumn(), connectionsColumn(),
		statusColumn(),
	}
}

func always(*Sheet) bool { return true }

func counted(s *Sheet) bool { return s.counted }

func nameColumn(title, word string, name, weight int) Column {
	return Column{
		Title: title, word: word, weight: weight, name: name, shown: always,
		Text:    func(r *Row) string { return r.Names[name] },
		compare: func(a, b *Row) int { return strings.Compare(a.Names[name], b.Names[name]) },
	}
}

func rateColumn() Column {
	return Column{
		Title: "CONN/S", word: "rate", weight: 8, width: 9, name: -1, down: true, shown: counted,
		Text:    func(r *Row) string { return rateText(r.rate, r.rated) },
		compare: func(a, b *Row) int { return cmp.Compare(a.rate, b.rate) },
	}
}

func activeColumn() Column {
	return Column{
		Title: "ACTIVE", word: "active", weight: 7, width: 8, name: -1, down: true, shown: always,
		Text:    func(r *Row) string { return strconv.Itoa(r.active) },
		compare: func(a, b *Row) int { return cmp.Compare(a.active, b.active) },
	}
}

func fastPathColumn() Column {
	return Column{
		Title: "FAST-PATH", word: "fast-path", weight: 1, width: 10, name: -1, down: true,
		Text:    func(r *Row) string { return strconv.Itoa(r.fastPath) },
		compare: func(a, b *Row) int { return cmp.Compare(a.fastPath, b.fastPath) },
		shown:   func(s *Sheet) bool { return s.fastPath },
	}
}

func connectionsColumn() Column {
	return Column{
		Title: "CONNECTIONS", word: "connections", weight: 2, width: 13, name: -1, down: true, shown: counted,
		Text:    func(r *Row) string { return strconv.FormatUint(r.connections, 10) },
		compare: func(a, b *Row) int { return cmp.Compare(a.connections, b.connections) },
	}
}

func statusColumn() Column {
	return Column{
		Title: "STATUS", word: "status", weight: 4, name: -1, down: true, shown: always,
		Text: func(r *Row) string { return r.status },
		compare: func(a, b *Row) int {
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
func columnOf(columns []Column, word string) int {
	for i := range columns {
		if columns[i].word == word {
			return i
		}
	}
	return -1
}
