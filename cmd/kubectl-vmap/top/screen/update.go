package screen

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"kube-vmap/cmd/inspect/top"
)

// Update handles an event.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case answer:
		return m, m.handleAnswer(msg)
	case tick:
		if msg.generation == m.generation {
			return m, m.startQuery()
		}
	case tea.BackgroundColorMsg:
		m.setStyle(newStyle(msg.IsDark()))
	case tea.KeyPressMsg:
		return m, m.handleKey(msg)
	case tea.PasteMsg:
		if m.searching { // otherwise, pasted text would be keys
			return m, m.handleSearchInput(msg)
		}
	}
	return m, nil
}

// handleKey handles a key.
func (m *model) handleKey(msg tea.KeyPressMsg) tea.Cmd {
	switch k := &m.keys; {
	case key.Matches(msg, k.interrupt):
		return tea.Quit
	case key.Matches(msg, k.suspend):
		return tea.Suspend
	case m.searching:
		return m.handleSearchKey(msg)
	case key.Matches(msg, k.quit):
		return tea.Quit
	case key.Matches(msg, k.help):
		m.helping = !m.helping
	case m.helping:
		m.helping = !key.Matches(msg, k.back)
	case key.Matches(msg, k.pause):
		m.paused = !m.paused
		return m.restart()
	case key.Matches(msg, k.enter):
		return m.enter()
	case key.Matches(msg, k.back):
		return m.back()
	case key.Matches(msg, k.search):
		m.searching = true
		m.input.SetValue(m.pane().Search)
		m.input.CursorEnd()
		return m.input.Focus()
	default:
		m.handleMoveKey(msg)
		m.handleSortKey(msg)
	}
	return nil
}

// handleSearchKey handles a key while a search is typed.
func (m *model) handleSearchKey(msg tea.KeyPressMsg) tea.Cmd {
	switch msg.String() {
	case "enter":
		m.searching = false
	case "esc":
		m.searching = false
		m.pane().find("")
	case "up", "down", "pgup", "pgdown":
		m.handleMoveKey(msg)
	default:
		return m.handleSearchInput(msg)
	}
	return nil
}

// handleSearchInput changes the search; the rows follow immediately.
func (m *model) handleSearchInput(msg tea.Msg) (cmd tea.Cmd) {
	m.input, cmd = m.input.Update(msg)
	m.pane().find(m.input.Value())
	return cmd
}

// enter shows the parts of the selected Service.
func (m *model) enter() tea.Cmd {
	r := m.overview.selected()
	if m.detail != nil || r == nil {
		return nil
	}
	m.detail = &pane{Table: top.NewDetail(r)}
	m.paused = false // there is nothing to freeze yet
	return m.restart()
}

// back ends the search, or returns to the overview.
func (m *model) back() tea.Cmd {
	if p := m.pane(); p.Search != "" {
		p.find("")
		return nil
	}
	if m.detail == nil {
		return nil
	}
	m.detail = nil
	return m.restart()
}

// handleMoveKey handles a key that selects another row.
func (m *model) handleMoveKey(msg tea.KeyPressMsg) {
	p, k := m.pane(), &m.keys
	switch {
	case key.Matches(msg, k.up):
		p.move(-1)
	case key.Matches(msg, k.down):
		p.move(1)
	case key.Matches(msg, k.pageUp):
		p.move(-m.rows())
	case key.Matches(msg, k.pageDown):
		p.move(m.rows())
	case key.Matches(msg, k.home):
		p.move(-len(p.Shown))
	case key.Matches(msg, k.end):
		p.move(len(p.Shown))
	}
}

// handleSortKey handles a key that sorts.
func (m *model) handleSortKey(msg tea.KeyPressMsg) {
	p, k := m.pane(), &m.keys
	switch {
	case key.Matches(msg, k.sort):
		p.sortByNext()
	case key.Matches(msg, k.reverse):
		p.sortBy(p.Order.Column)
	case key.Matches(msg, k.column):
		p.sortByShown(int(msg.String()[0] - '1'))
	}
}
