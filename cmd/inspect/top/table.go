package top

import (
	"time"

	"kube-vmap/cmd/inspect/status"
)

// Table is what is shown: a [Sheet] with an order and a search.
type Table struct {
	Columns []Column
	// Service is the one whose parts are shown; nil for a list of Services.
	Service   *Row
	namespace string
	Sheet     *Sheet // nil before the first answer
	Order     Order
	Search    string
	Shown     []*Row // found by the search, in order
	// Err is the error of the last query, if any, and ErrAt its time.
	Err   error
	ErrAt time.Time
}

// NewOverview returns the table of the Services of a namespace.
func NewOverview(c Config) *Table {
	t := &Table{Columns: overviewColumns(), namespace: c.Namespace}
	t.Order.Column = columnOf(t.Columns, c.Sort)
	return t
}

// NewDetail returns the table of the frontends and endpoints of a Service.
func NewDetail(service *Row) *Table {
	return &Table{Columns: detailColumns(), Service: service}
}

// Query returns the query for what the table shows.
func (t *Table) Query() status.Query {
	if t.Service != nil {
		return status.Query{Namespace: t.Service.id[0], Name: t.Service.id[1]}
	}
	return status.Query{Namespace: t.namespace, Brief: t.Sheet == nil || len(t.Sheet.rows) > manyServices}
}

// manyServices is the number of Services above which endpoints are only counted, to keep
// documents small.
const manyServices = 500

// EmptyText returns why there are no rows; empty if there are some.
func (t *Table) EmptyText() string {
	switch {
	case len(t.Sheet.rows) > 0:
		return ""
	case t.Service != nil:
		return "! nothing of it is programmed"
	case t.namespace != "":
		return "! there is no Service in namespace " + Clean(t.namespace)
	}
	return "! there are no Services"
}

// SheetOf returns the sheet of an answer; before is the previous one for the same query, or
// nil. It may run beside all other methods.
func (t *Table) SheetOf(a Answer, before *Sheet) *Sheet {
	if t.Service == nil {
		return newSheet(a, serviceRows, before)
	}
	rows := detailRows
	if len(a.Documents) > 1 {
		rows = detailRowsAndNode
	}
	s := newSheet(a, rows, before)
	s.Notes, s.state = detailNotes(a), detailState(a)
	return s
}

// Show replaces the sheet.
func (t *Table) Show(s *Sheet) {
	t.Sheet, t.Err = s, nil
	t.arrange()
}

// arrange sorts and searches again.
func (t *Table) arrange() {
	if t.Sheet == nil {
		return
	}
	// A column that is not counted has no order.
	if !t.Columns[t.Order.Column].shown(t.Sheet) {
		t.Order = Order{Column: columnOf(t.Columns, "active")}
	}
	t.Shown = arrange(t.Sheet, t.Columns, t.Order, t.Search)
}

// SortBy sorts by a column, or reverses the order if that is the current one.
func (t *Table) SortBy(column int) {
	if column >= len(t.Columns) || t.Sheet != nil && !t.Columns[column].shown(t.Sheet) {
		return
	}
	o := Order{Column: column}
	if t.Order.Column == column {
		o.backward = !t.Order.backward
	}
	t.Order = o
	t.arrange()
}

// SortByShown sorts by a column, counted from zero among those that have anything to show.
func (t *Table) SortByShown(n int) {
	for i := range t.Columns {
		if t.Sheet != nil && !t.Columns[i].shown(t.Sheet) {
			continue
		}
		if n == 0 {
			t.SortBy(i)
			return
		}
		n--
	}
}

// SortByNext sorts by the next visible column.
func (t *Table) SortByNext() {
	for range t.Columns {
		t.Order = Order{Column: (t.Order.Column + 1) % len(t.Columns)}
		if t.Sheet == nil || t.Columns[t.Order.Column].shown(t.Sheet) {
			break
		}
	}
	t.arrange()
}

// Descends reports whether the greatest comes first.
func (t *Table) Descends() bool { return t.Columns[t.Order.Column].down != t.Order.backward }

// Find searches for a text; an empty one shows all rows.
func (t *Table) Find(text string) {
	t.Search = text
	t.arrange()
}
