package screen

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/table"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"kube-vmap/cmd/inspect/top"
)

// fixedLines are the lines above and below the rows: three of header, the column titles
// and the keys.
const fixedLines = 5

// maxNotes is how many lines the problems of a Service may take.
const maxNotes = 3

// View returns the screen. The terminal's former content returns when it ends.
func (m *model) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen, v.WindowTitle = true, "kube-vmap top"
	return v
}

// draw draws the screen with the visible rows.
func (m *model) draw() string {
	if m.width == 0 {
		return "" // not known yet
	}
	lines := m.header()
	if m.helping {
		lines = append(lines, strings.Split(m.helpView(), "\n")...)
	} else {
		lines = append(lines, m.notes()...)
		lines = append(lines, m.table())
	}
	lines = append(lines, m.footer())
	return strings.Join(lines, "\n")
}

// rows returns the number of visible rows.
func (m *model) rows() int { return max(1, m.height-fixedLines-len(m.notes())) }

// line returns a text in one line, cut to the screen's width.
func (m *model) line(st lipgloss.Style, text string) string {
	return st.Inline(true).MaxWidth(m.width).Render(text)
}

// header returns three lines in any state, so that nothing moves.
func (m *model) header() []string {
	p := m.pane()
	s := p.Sheet
	if s == nil {
		s = m.overview.Sheet // for the node's name
	}
	out := []string{m.line(m.style.strong, s.SourceText()), "", ""}
	switch {
	case p.Service == nil:
		out[1] = m.line(m.style.plain, s.Totals("services"))
	case p.Sheet == nil:
		out[1] = m.line(m.style.strong, p.title()+top.Separator+"asking...")
	default:
		out[1] = m.line(m.style.strong, p.title()+top.Separator+s.Totals(""))
	}
	out[2] = m.line(m.style.alarm, strings.Join(m.alarms(), top.Separator))
	return out
}

// Title returns the name of the Service.
func (p *pane) title() string { return p.Service.Names[0] + "/" + p.Service.Names[1] }

// alarms returns what is unusual.
func (m *model) alarms() []string {
	var out []string
	p := m.pane()
	if m.paused {
		out = append(out, "! paused: p continues")
	}
	if p.Err != nil {
		out = append(out, top.ErrorText(p.Err, p.ErrAt))
	}
	if p.Sheet == nil {
		return out
	}
	if none := p.EmptyText(); none != "" {
		out = append(out, none)
	}
	return append(out, p.Sheet.Warnings()...)
}

// Notes returns the problems of the Service, if there is room.
func (m *model) notes() []string {
	p := m.pane()
	if p.Service == nil || p.Sheet == nil || m.height < fixedLines+2*maxNotes {
		return nil
	}
	var out []string
	for i, n := range p.Sheet.Notes[:min(maxNotes, len(p.Sheet.Notes))] {
		if more := len(p.Sheet.Notes) - maxNotes; i == maxNotes-1 && more > 0 {
			n = fmt.Sprintf("(and %d more) %s", more, n)
		}
		out = append(out, m.line(m.style.alarm, "! "+n))
	}
	return out
}

// table draws the visible rows.
func (m *model) table() string {
	p := m.pane()
	rows := m.rows()
	if p.Sheet == nil {
		return strings.Repeat("\n", rows)
	}
	visible := p.window(rows)
	widths := top.Fit(p.Columns, p.Sheet, m.width)
	t := table.New(
		table.WithStyles(m.style.table),
		table.WithColumns(p.titles(widths)),
		table.WithRows(p.cells(visible, widths)),
		table.WithWidth(m.width),
		table.WithHeight(rows+1),
	)
	t.SetCursor(p.at - p.first)
	return t.View()
}

// titles returns the columns, with an arrow at the one that the rows are sorted by.
func (p *pane) titles(widths []int) []table.Column {
	var out []table.Column
	for i, w := range widths {
		if w == 0 {
			continue
		}
		title := p.Columns[i].Title
		if i == p.Order.Column {
			title += p.arrow()
		}
		out = append(out, table.Column{Title: p.Columns[i].Pad(title, w), Width: w})
	}
	if len(out) > 0 {
		out[0].Title = strings.Repeat(" ", top.Mark) + out[0].Title
		out[0].Width += top.Mark
	}
	return out
}

func (p *pane) arrow() string {
	if p.Descends() {
		return "▼"
	}
	return "▲"
}

// cells returns the texts of rows, with a mark at the selected one.
func (p *pane) cells(rows []*top.Row, widths []int) []table.Row {
	out := make([]table.Row, len(rows))
	for i, r := range rows {
		sign := strings.Repeat(" ", top.Mark)
		if p.first+i == p.at {
			sign = "> "
		}
		for j, w := range widths {
			if w > 0 {
				out[i] = append(out[i], p.Columns[j].Pad(p.Columns[j].Text(r), w))
			}
		}
		if len(out[i]) > 0 {
			out[i][0] = sign + out[i][0]
		}
	}
	return out
}

// footer returns the search input, its result, or the keys.
func (m *model) footer() string {
	p := m.pane()
	switch {
	case m.searching:
		found := fmt.Sprintf("%s%d found", top.Separator, len(p.Shown))
		m.input.SetWidth(max(1, m.width-len(found)-2))
		return m.input.View() + m.line(m.style.quiet, found)
	case p.Search != "":
		found := fmt.Sprintf("/%s%s%d found, Esc shows all", top.Clean(p.Search), top.Separator, len(p.Shown))
		return m.line(m.style.strong, found)
	}
	m.help.SetWidth(m.width)
	return m.line(m.style.plain, m.help.ShortHelpView(m.keys.ShortHelp()))
}
