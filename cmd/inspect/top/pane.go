package top

import (
	"slices"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// pane is a table with its order, its search, the selected row, and the visible rows.
type pane struct {
	columns []column
	rows    func(*status.Document) []row
	// service is the one whose parts are shown; nil for a list of Services.
	service   *row
	namespace string
	sheet     *sheet // nil before the first answer
	order     order
	search    string
	shown     []*row
	// at is the index of the selected row in shown, first that of the first visible row.
	at, first int
	// follows reports whether the selected row is followed when it moves. Otherwise the
	// first row is selected, whichever it is.
	follows bool
	// err is the error of the last query, if any, and errAt its time.
	err   error
	errAt time.Time
}

func newOverview(c Config) *pane {
	p := &pane{columns: overviewColumns(), rows: serviceRows, namespace: c.Namespace}
	p.order.column = columnOf(p.columns, c.Sort)
	return p
}

func newDetail(service *row) *pane {
	return &pane{columns: detailColumns(), rows: detailRows, service: service}
}

// query returns the query for what the pane shows.
func (p *pane) query(namespace string) status.Query {
	if p.service != nil {
		return status.Query{Namespace: p.service.id[0], Name: p.service.id[1]}
	}
	return overviewQuery(namespace, p.sheet)
}

// emptyText returns why there are no rows; empty if there are some.
func (p *pane) emptyText() string {
	switch {
	case len(p.sheet.rows) > 0:
		return ""
	case p.service != nil:
		return "! nothing of it is programmed"
	case p.namespace != "":
		return "! there is no Service in namespace " + clean(p.namespace)
	}
	return "! there are no Services"
}

// sheetOf returns the sheet of a document. It may run beside all other methods.
func (p *pane) sheetOf(d *status.Document, before *sheet) *sheet {
	s := newSheet(d, p.rows, before)
	if p.service != nil {
		s.notes, s.state = detailNotes(d), detailState(d)
	}
	return s
}

// show replaces the sheet.
func (p *pane) show(s *sheet) {
	p.sheet, p.err = s, nil
	p.arrange()
}

// arrange sorts and searches again. A row that is followed also stays at its place on the
// screen.
func (p *pane) arrange() {
	if p.sheet == nil {
		return
	}
	// A column that is not counted has no order.
	if !p.columns[p.order.column].shown(p.sheet) {
		p.order = order{column: columnOf(p.columns, "active")}
	}
	selected := p.selected()
	p.shown = arrange(p.sheet, p.columns, p.order, p.search)
	if selected == nil || !p.follows {
		p.at = 0
		return
	}
	now := slices.IndexFunc(p.shown, func(r *row) bool { return r.id == selected.id })
	if now >= 0 {
		p.first += now - p.at
		p.at = now
	}
}

// selected returns the selected row; nil if there is none.
func (p *pane) selected() *row {
	if p.at >= len(p.shown) {
		return nil
	}
	return p.shown[p.at]
}

// move moves the selection down, and follows the row unless it is the first.
func (p *pane) move(by int) {
	p.at = max(0, min(p.at+by, len(p.shown)-1))
	p.follows = p.at > 0
}

// window scrolls to the selected row and returns the visible rows.
func (p *pane) window(rows int) []*row {
	p.at = max(0, min(p.at, len(p.shown)-1))
	p.first = max(p.first, p.at-rows+1)                     // not above
	p.first = min(p.first, p.at, max(0, len(p.shown)-rows)) // not below
	p.first = max(p.first, 0)
	return p.shown[p.first:min(p.first+rows, len(p.shown))]
}

// sortBy sorts by a column, or reverses the order if that is the current one.
func (p *pane) sortBy(column int) {
	if column >= len(p.columns) || p.sheet != nil && !p.columns[column].shown(p.sheet) {
		return
	}
	o := order{column: column}
	if p.order.column == column {
		o.backward = !p.order.backward
	}
	p.order = o
	p.arrange()
}

// sortByNext sorts by the next visible column.
func (p *pane) sortByNext() {
	for range p.columns {
		p.order = order{column: (p.order.column + 1) % len(p.columns)}
		if p.sheet == nil || p.columns[p.order.column].shown(p.sheet) {
			break
		}
	}
	p.arrange()
}

// find searches for a text; an empty one shows all rows.
func (p *pane) find(text string) {
	p.search = text
	p.arrange()
}
