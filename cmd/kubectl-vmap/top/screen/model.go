package screen

import (
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"kube-vmap/cmd/inspect/top"
)

// model is the state of the screen.
type model struct {
	ask      top.Poll
	interval time.Duration

	overview *pane
	detail   *pane // nil in the overview
	// generation grows with each change of the query. Answers and ticks of an earlier one are
	// ignored.
	generation int
	pending    bool // an answer is pending, of any generation
	paused     bool

	width, height int
	keys          keys
	style         style
	help          help.Model
	helping       bool
	input         textinput.Model
	searching     bool // keys go to the input
}

// newModel returns a model that shows the overview.
func newModel(ask top.Poll, interval time.Duration, overview *top.Table) *model {
	m := &model{
		ask: ask, interval: interval,
		overview: &pane{Table: overview}, keys: newKeys(),
		help: help.New(), input: newInput(),
	}
	m.setStyle(newStyle(true)) // most terminals are dark
	return m
}

// newInput returns the search input.
func newInput() textinput.Model {
	in := textinput.New()
	in.Prompt = "/"
	in.KeyMap.Paste.SetEnabled(false) // it would run programs to read the clipboard; terminals paste by themselves
	return in
}

// setStyle sets the style of all parts.
func (m *model) setStyle(st style) {
	m.style = st
	m.help.Styles = st.help
	m.input.SetStyles(st.input)
}

// pane returns the pane on the screen.
func (m *model) pane() *pane {
	if m.detail != nil {
		return m.detail
	}
	return m.overview
}

// answer is the result of a query.
type answer struct {
	generation int
	sheet      *top.Sheet
	err        error
	at         time.Time
	took       time.Duration
}

// tick is the tick for the next query.
type tick struct{ generation int }

// Init requests the terminal's background colour, and waits for the second sheet, the
// first with rates.
func (m *model) Init() tea.Cmd {
	return tea.Batch(tea.RequestBackgroundColor, m.scheduleQuery(m.interval))
}

// startQuery starts a query for the pane, unless one is pending.
func (m *model) startQuery() tea.Cmd {
	if m.pending || m.paused {
		return nil
	}
	m.pending = true
	p, generation, ask := m.pane(), m.generation, m.ask
	q, before := p.Query(), p.Sheet
	return func() tea.Msg {
		start := time.Now()
		a := answer{generation: generation}
		got, err := ask(q)
		if err == nil {
			a.sheet = p.SheetOf(got, before)
		}
		a.err, a.at, a.took = err, time.Now(), time.Since(start)
		return a
	}
}

// scheduleQuery returns the command that waits for the next query.
func (m *model) scheduleQuery(d time.Duration) tea.Cmd {
	generation := m.generation
	return tea.Tick(d, func(time.Time) tea.Msg { return tick{generation} })
}

// restart starts a new generation, after a change of the query.
func (m *model) restart() tea.Cmd {
	m.generation++
	return m.startQuery()
}

// handleAnswer handles an answer.
func (m *model) handleAnswer(a answer) tea.Cmd {
	m.pending = false
	if a.generation != m.generation {
		return m.startQuery()
	}
	if m.paused {
		return nil
	}
	if p := m.pane(); a.err != nil {
		p.Err, p.ErrAt = a.err, a.at
	} else {
		p.show(a.sheet)
	}
	return m.scheduleQuery(top.NextDelay(m.interval, a.took))
}

var _ tea.Model = (*model)(nil)
