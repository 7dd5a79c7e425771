package top

import (
	"cmp"
	"slices"
	"strings"
)

// Order is how rows are sorted.
type Order struct {
	Column   int  // index
	backward bool // other than the column's own way
}

// arrange returns the rows that hold a text, sorted. Of those that are equal, the
// first of the document comes first, both ways.
func arrange(s *Sheet, columns []Column, o Order, text string) []*Row {
	c := &columns[o.Column]
	down := c.down != o.backward
	out := matching(s, text)
	slices.SortFunc(out, func(a, b *Row) int {
		d := c.compare(a, b)
		if down {
			d = -d
		}
		return cmp.Or(cmp.Compare(a.group, b.group), d, cmp.Compare(a.order, b.order))
	})
	return out
}

// matching returns the rows in whose names or status a text is found, in whatever
// case. A slash in it separates namespace and name.
func matching(s *Sheet, text string) []*Row {
	text = strings.ToLower(strings.TrimSpace(text))
	out := make([]*Row, 0, len(s.rows))
	for i := range s.rows {
		if r := &s.rows[i]; text == "" || r.holds(text) {
			out = append(out, r)
		}
	}
	return out
}

// holds reports whether a text in lower case is found in a row.
func (r *Row) holds(text string) bool {
	name := r.Names[0] + "/" + r.Names[1]
	if r.Names[2] != "" {
		name += "/" + r.Names[2]
	}
	return strings.Contains(strings.ToLower(name), text) ||
		r.severity != severityOK && strings.Contains(strings.ToLower(r.status), text)
}
