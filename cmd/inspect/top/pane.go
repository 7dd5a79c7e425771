package top

import (
	"slices"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// pane is a table with what a person has made of it: the order, the search, the row
// that is selected, and the part in sight.
type pane struct {
	columns []column
	rows    func(*status.Document) []row
	// service is whose parts are shown; nil for all Services, or for those of a namespace.
	service   *row
	namespace string
	sheet     *sheet // nil until there is one
	order     order
	search    string
	shown     []*row
	// at is the place of the selected row among the shown, first that of the first in
	// sight.
	at, first int
	// follows tells that the selected row is followed wherever it goes. Else the first
	// place is selected, whoever is there.
	follows bool
	// trouble is the error that the last question had, if it had one, and when.
	trouble   error
	troubleAt time.Time
}

func newOverview(c Config) *pane {
	p := &pane{columns: overviewColumns(), rows: serviceRows, namespace: c.Namespace}
	p.order.column = columnOf(p.columns, c.Sort)
	return p
}

func newDetail(service *row) *pane {
	return &pane{columns: detailColumns(), rows: partRows, service: service}
}

// query asks for what the pane shows.
func (p *pane) query(namespace string) status.Query {
	if p.service != nil {
		return status.Query{Namespace: p.service.id[0], Name: p.service.id[1]}
	}
	return overviewQuery(namespace, p.sheet)
}

// nothing says that there are no rows; empty if there are some.
func (p *pane) nothing() string {
	switch {
	case len(p.sheet.rows) > 0:
		return ""
	case p.service != nil:
		return "! nothing is programmed of it"
	case p.namespace != "":
		return "! there is no Service of namespace " + clean(p.namespace)
	}
	return "! there are no Services"
}

// sheetOf makes a sheet of a document. It touches nothing of the pane that changes.
func (p *pane) sheetOf(d *status.Document, before *sheet) *sheet {
	s := newSheet(d, p.rows, before)
	if p.service != nil {
		s.notes, s.state = partNotes(d), partState(d)
	}
	return s
}

// show takes a new sheet.
func (p *pane) show(s *sheet) {
	p.sheet, p.trouble = s, nil
	p.arrange()
}

// arrange sorts and searches again. A row that is followed also stays where it is on
// the screen.
func (p *pane) arrange() {
	if p.sheet == nil {
		return
	}
	// What is not counted has no order.
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

// selected is the row that is selected; nil if there is none.
func (p *pane) selected() *row {
	if p.at >= len(p.shown) {
		return nil
	}
	return p.shown[p.at]
}

// move selects the row that is so many further down, and follows it unless it is the
// first.
func (p *pane) move(by int) {
	p.at = max(0, min(p.at+by, len(p.shown)-1))
	p.follows = p.at > 0
}

// window moves the part in sight, which has so many rows, to where the selected row
// is, and returns it.
func (p *pane) window(rows int) []*row {
	p.at = max(0, min(p.at, len(p.shown)-1))
	p.first = max(p.first, p.at-rows+1)                     // not above
	p.first = min(p.first, p.at, max(0, len(p.shown)-rows)) // not below
	p.first = max(p.first, 0)
	return p.shown[p.first:min(p.first+rows, len(p.shown))]
}

// sortBy sorts by a column; if it is so already, the other way round.
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

// sortByNext sorts by the next column that is shown.
func (p *pane) sortByNext() {
	for range p.columns {
		p.order = order{column: (p.order.column + 1) % len(p.columns)}
		if p.sheet == nil || p.columns[p.order.column].shown(p.sheet) {
			break
		}
	}
	p.arrange()
}

// find searches for a text; an empty one shows all again.
func (p *pane) find(text string) {
	p.search = text
	p.arrange()
}
