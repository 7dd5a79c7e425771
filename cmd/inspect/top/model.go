package top

import (
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// model is the state of the screen.
type model struct {
	ask       poll
	namespace string
	interval  time.Duration

	overview *pane
	detail   *pane // nil in the overview
	// turn grows with each change of what is asked for. What belongs to an earlier one
	// is too late.
	turn   int
	asking bool // there is an answer to come, whatever turn it belongs to
	paused bool

	width, height int
	keys          keys
	style         style
	help          help.Model
	helping       bool
	input         textinput.Model
	searching     bool // what is typed is what is searched for
}

// newModel starts with a first sheet of the overview.
func newModel(c Config, ask poll, first *sheet) *model {
	m := &model{
		ask: ask, namespace: c.Namespace, interval: c.Interval,
		overview: newOverview(c), keys: newKeys(),
		help: help.New(), input: newInput(),
	}
	m.wear(newStyle(true)) // until the terminal tells: most are dark
	m.overview.show(first)
	return m
}

// newInput is where a search is typed.
func newInput() textinput.Model {
	in := textinput.New()
	in.Prompt = "/"
	in.KeyMap.Paste.SetEnabled(false) // it would run programs; a terminal pastes by itself
	return in
}

// wear makes a style that of everything.
func (m *model) wear(st style) {
	m.style = st
	m.help.Styles = st.help
	m.input.SetStyles(st.input)
}

// pane is what is on the screen.
func (m *model) pane() *pane {
	if m.detail != nil {
		return m.detail
	}
	return m.overview
}

// answer is what came of a question.
type answer struct {
	turn  int
	sheet *sheet
	err   error
	at    time.Time
	took  time.Duration
}

// due tells that it is time for the next question.
type due struct{ turn int }

// Init asks the terminal for its background, and waits for the second sheet, which is
// the first that has rates.
func (m *model) Init() tea.Cmd {
	return tea.Batch(tea.RequestBackgroundColor, m.later(m.interval))
}

// question asks for what is on the screen, away from where keys are answered, if
// there is no other answer to come.
func (m *model) question() tea.Cmd {
	if m.asking || m.paused {
		return nil
	}
	m.asking = true
	p, turn, ask := m.pane(), m.turn, m.ask
	q, before := p.query(m.namespace), p.sheet
	return func() tea.Msg {
		start := time.Now()
		a := answer{turn: turn}
		d, err := ask(q)
		if err == nil {
			a.sheet = p.sheetOf(d, before)
		}
		a.err, a.at, a.took = err, time.Now(), time.Since(start)
		return a
	}
}

// later asks after a while.
func (m *model) later(d time.Duration) tea.Cmd {
	turn := m.turn
	return tea.Tick(d, func(time.Time) tea.Msg { return due{turn} })
}

// again begins a new turn: what is asked for has changed.
func (m *model) again() tea.Cmd {
	m.turn++
	return m.question()
}

// answered takes an answer.
func (m *model) answered(a answer) tea.Cmd {
	m.asking = false
	if a.turn != m.turn {
		return m.question()
	}
	if m.paused {
		return nil // what is on the screen stays
	}
	if p := m.pane(); a.err != nil {
		p.trouble, p.troubleAt = a.err, a.at
	} else {
		p.show(a.sheet)
	}
	return m.later(rest(m.interval, a.took))
}

var _ tea.Model = (*model)(nil)
