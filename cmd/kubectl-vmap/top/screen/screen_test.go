package screen

import (
	"strings"
	"testing"
	"time"

	"charm.land/bubbles/v2/table"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/inspect/top/toptest"
)

// screenOf is a model whose ticks the test controls.
type screenOf struct {
	*model
	t testing.TB
}

// newScreen shows the first answer of a source, without colours.
func newScreen(t testing.TB, s *toptest.Script) *screenOf {
	t.Helper()
	return newScreenOf(t, s, "")
}

// newScreenOf shows the Services of a namespace.
func newScreenOf(t testing.TB, s *toptest.Script, namespace string) *screenOf {
	t.Helper()
	ask := top.NewPoll(t.Context(), top.OneNode(s.Get), time.Second)
	overview := top.NewOverview(top.Config{Sort: "rate", Namespace: namespace})
	a, err := ask(overview.Query())
	if err != nil {
		t.Fatal(err)
	}
	overview.Show(overview.SheetOf(a, nil))
	m := &screenOf{newModel(ask, time.Second, overview), t}
	m.setStyle(colourless())
	m.size(100, 20)
	return m
}

// colourless is a style with spacing only.
func colourless() style {
	cell := lipgloss.NewStyle().PaddingRight(top.Gap)
	return style{table: table.Styles{Header: cell, Cell: cell}}
}

func (m *screenOf) size(width, height int) { m.send(tea.WindowSizeMsg{Width: width, Height: height}) }

// send handles a message, and the answer to the query that it starts.
func (m *screenOf) send(msg tea.Msg) {
	if _, cmd := m.Update(msg); cmd != nil && m.pending {
		m.send(cmd())
	}
}

// tick starts the next query.
func (m *screenOf) tick() { m.send(tick{m.generation}) }

// press presses keys, by the library's names.
func (m *screenOf) press(keys ...string) {
	for _, k := range keys {
		m.send(keyOf(k))
	}
}

// write types characters.
func (m *screenOf) write(text string) {
	for _, r := range text {
		m.send(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
}

func keyOf(name string) tea.KeyPressMsg {
	for code, n := range map[rune]string{
		tea.KeyEnter: "enter", tea.KeyEscape: "esc", tea.KeyUp: "up", tea.KeyDown: "down", tea.KeyPgUp: "pgup",
		tea.KeyPgDown: "pgdown", tea.KeyHome: "home", tea.KeyEnd: "end", tea.KeyBackspace: "backspace",
	} {
		if n == name {
			return tea.KeyPressMsg{Code: code}
		}
	}
	last := rune(name[len(name)-1])
	if strings.HasPrefix(name, "ctrl+") {
		return tea.KeyPressMsg{Code: last, Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: last, Text: name}
}

// onScreen fails unless the screen has the texts.
func (m *screenOf) onScreen(texts ...string) {
	m.t.Helper()
	for _, text := range texts {
		if !strings.Contains(m.draw(), text) {
			m.t.Errorf("there is no %q on the screen:\n%s", text, m.draw())
		}
	}
}

// notOnScreen fails if the screen has one of the texts.
func (m *screenOf) notOnScreen(texts ...string) {
	m.t.Helper()
	for _, text := range texts {
		if strings.Contains(m.draw(), text) {
			m.t.Errorf("there is %q on the screen:\n%s", text, m.draw())
		}
	}
}

// under returns the name of the selected row on the screen.
func (m *screenOf) under() string {
	m.t.Helper()
	var marked []string
	for line := range strings.Lines(m.draw()) {
		if rest, yes := strings.CutPrefix(line, "> "); yes {
			marked = append(marked, strings.Fields(rest)[1])
		}
	}
	if len(marked) != 1 {
		m.t.Fatalf("%d rows are marked:\n%s", len(marked), m.draw())
	}
	return marked[0]
}
