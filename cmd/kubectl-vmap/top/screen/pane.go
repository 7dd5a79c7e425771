package screen

import (
	"slices"

	"kube-vmap/cmd/inspect/top"
)

// pane is a table with a selected row, and the visible rows.
type pane struct {
	*top.Table
	// at is the index of the selected row in Shown, first that of the first visible row.
	at, first int
	// follows reports whether the selected row is followed when it moves. Otherwise the
	// first row is selected, whichever it is.
	follows bool
}

// show replaces the sheet.
func (p *pane) show(s *top.Sheet) { p.change(func() { p.Show(s) }) }

// sortBy sorts by a column, or reverses the order if that is the current one.
func (p *pane) sortBy(column int) { p.change(func() { p.SortBy(column) }) }

// sortByNext sorts by the next visible column.
func (p *pane) sortByShown(n int) { p.change(func() { p.SortByShown(n) }) }

func (p *pane) sortByNext() { p.change(p.SortByNext) }

// find searches for a text; an empty one shows all rows.
func (p *pane) find(text string) { p.change(func() { p.Find(text) }) }

// change changes the table. A row that is followed stays selected, and at its place on the
// screen.
func (p *pane) change(do func()) {
	selected := p.selected()
	do()
	if selected == nil || !p.follows {
		p.at = 0
		return
	}
	now := slices.IndexFunc(p.Shown, func(r *top.Row) bool { return r.Is(selected) })
	if now >= 0 {
		p.first += now - p.at
		p.at = now
	}
}

// selected returns the selected row; nil if there is none.
func (p *pane) selected() *top.Row {
	if p.at >= len(p.Shown) {
		return nil
	}
	return p.Shown[p.at]
}

// move moves the selection down, and follows the row unless it is the first.
func (p *pane) move(by int) {
	p.at = max(0, min(p.at+by, len(p.Shown)-1))
	p.follows = p.at > 0
}

// window scrolls to the selected row and returns the visible rows.
func (p *pane) window(rows int) []*top.Row {
	p.at = max(0, min(p.at, len(p.Shown)-1))
	p.first = max(p.first, p.at-rows+1)                     // not above
	p.first = min(p.first, p.at, max(0, len(p.Shown)-rows)) // not below
	p.first = max(p.first, 0)
	return p.Shown[p.first:min(p.first+rows, len(p.Shown))]
}
