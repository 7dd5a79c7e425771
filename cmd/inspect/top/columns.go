package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"kube-vmap/cmd/inspect/output"
)

// column is a column of the table.
type column struct {
	title, word string // the word is for --sort
	text        func(*Row) string
	// compare returns less than 0 if a comes first.
	compare func(a, b *Row) int
	// shown reports whether the column has anything to show; nil means always.
	shown func(*Table) bool
}

func columns() []column {
	counted := func(t *Table) bool { return t.counted }
	fastPath := func(t *Table) bool { return t.fastPath }
	return []column{
		name("NAMESPACE", "namespace", func(r *Row) string { return r.Namespace }),
		name("SERVICE", "service", func(r *Row) string { return r.Name }),
		greatest("CONN/S", "rate", valueOf, rateText, counted),
		greatest("ACTIVE", "active", func(r *Row) int { return r.Active }, nil, nil),
		greatest("FAST-PATH", "fast-path", func(r *Row) int { return r.FastPath }, nil, fastPath),
		greatest("CONNECTIONS", "connections", func(r *Row) uint64 { return r.Connections }, nil, counted),
		greatest("ENDPOINTS", "endpoints", func(r *Row) int { return r.Endpoints.Used }, endpointText, nil),
		greatest("STATUS", "status", func(r *Row) int { return rank(r.Severity) }, statusText, nil),
	}
}

// name returns a column of names, in their order.
func name(title, word string, text func(*Row) string) column {
	compare := func(a, b *Row) int { return cmp.Compare(text(a), text(b)) }
	return column{title: title, word: word, text: text, compare: compare}
}

// greatest returns a column whose greatest value comes first. If text is nil, it is the value.
func greatest[V cmp.Ordered](
	title, word string, value func(*Row) V, text func(*Row) string, shown func(*Table) bool,
) column {
	if text == nil {
		text = func(r *Row) string { return fmt.Sprint(value(r)) }
	}
	compare := func(a, b *Row) int { return cmp.Compare(value(b), value(a)) }
	return column{title: title, word: word, text: text, compare: compare, shown: shown}
}

// unknown replaces a rate that is not known.
const unknown = "-"

func valueOf(r *Row) float64 {
	if r.Rate == nil {
		return 0
	}
	return *r.Rate
}

func rateText(r *Row) string {
	if r.Rate == nil {
		return unknown
	}
	return strconv.FormatFloat(*r.Rate, 'f', 1, 64)
}

func endpointText(r *Row) string { return fmt.Sprintf("%d/%d", r.Endpoints.Used, r.Endpoints.All) }

// statusText returns the state and the problem of a Service.
func statusText(r *Row) string {
	if r.Problem == "" {
		return r.State
	}
	return r.State + ": " + r.Problem
}

// sorts returns the values of Config.Sort.
func sorts() (out []string) {
	for _, c := range columns() {
		out = append(out, c.word)
	}
	return out
}

// sort sorts by a column, or by active connections if there is nothing in it.
func (t *Table) sort(word string) {
	named := func(word string) column {
		all := columns()
		return all[slices.IndexFunc(all, func(c column) bool { return c.word == word })]
	}
	by := named(word)
	if by.shown != nil && !by.shown(t) {
		by = named("active")
	}
	slices.SortStableFunc(t.rows, by.compare)
}

// print prints a table in the output format, and to Err what its numbers lack.
func (c *Config) print(t *Table, more bool) (err error) {
	t.sort(c.Sort)
	if c.Output != "" {
		err = output.WriteList(c.Out, c.Output, append([]*Row{}, t.rows...), t.summary)
	} else {
		err = t.write(c.Out, more)
	}
	for _, w := range t.warnings() {
		_, _ = fmt.Fprintln(c.Err, w)
	}
	return err
}

// write writes the rows and the summary, after an empty line if there was a table before.
func (t *Table) write(w io.Writer, more bool) error {
	shown := slices.DeleteFunc(columns(), func(c column) bool { return c.shown != nil && !c.shown(t) })
	row := func(text func(*column) string) (cells []string) {
		for i := range shown {
			cells = append(cells, output.Clean(text(&shown[i])))
		}
		return cells
	}
	var rows [][]string
	if len(t.rows) > 0 {
		rows = append(rows, row(func(c *column) string { return c.title }))
	}
	for _, r := range t.rows {
		rows = append(rows, row(func(c *column) string { return c.text(r) }))
	}
	var begin string
	if more {
		begin = "\n"
	}
	if _, err := io.WriteString(w, begin); err != nil {
		return err
	}
	if err := output.Print(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, t.text())
	return err
}
