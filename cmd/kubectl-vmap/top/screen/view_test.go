package screen

import (
	"image/color"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/exp/golden"

	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/inspect/top/toptest"
)

// shop is the screen of the golden views.
func shop(t *testing.T) *screenOf {
	first, second := toptest.Three(0), toptest.Three(1)
	second.Services[2].Problems = append(second.Services[2].Problems, toptest.Problem("c", "middle", "port 80 is used twice"))
	m := newScreen(t, &toptest.Script{Answers: []any{first, second}})
	m.tick()
	return m
}

func TestOverviewLooks(t *testing.T) {
	for _, c := range []struct {
		name          string
		width, height int
	}{{"wide", 140, 12}, {"usual", 80, 12}, {"narrow", 40, 10}} {
		t.Run(c.name, func(t *testing.T) {
			m := shop(t)
			m.size(c.width, c.height)
			golden.RequireEqual(t, []byte(m.draw()+"\n"))
		})
	}
}

func TestDetailLooks(t *testing.T) {
	m := shop(t)
	m.size(110, 34)
	m.press("down", "enter")
	golden.RequireEqual(t, []byte(m.draw()+"\n"))
}

func TestHelpLooks(t *testing.T) {
	m := shop(t)
	m.size(100, 22)
	m.press("?")
	golden.RequireEqual(t, []byte(m.draw()+"\n"))
}

func TestNoLineIsWiderThanTheScreen(t *testing.T) {
	one, two := toptest.Different()
	m := newScreen(t, &toptest.Script{Answers: []any{one, two}})
	for _, keys := range [][]string{{}, {"?"}, {"?", "enter"}, {"/"}, {"w", "enter"}} {
		m.press(keys...)
		for width := 1; width < 160; width++ {
			m.size(width, 20)
			for line := range strings.Lines(m.draw()) {
				if got := lipgloss.Width(strings.TrimSuffix(line, "\n")); got > max(width, 16) {
					t.Fatalf("after %v: a line of %d columns on a screen of %d:\n%s", keys, got, width, m.draw())
				}
			}
		}
	}
}

func TestColoursFollowTheBackground(t *testing.T) {
	look := func(background color.Color) (list, search string) {
		m := shop(t)
		m.send(tea.BackgroundColorMsg{Color: background})
		list = m.draw()
		m.press("/")
		return list, m.draw()
	}
	dark, darkSearch := look(color.Black)
	light, lightSearch := look(color.White)
	if dark == light || darkSearch == lightSearch {
		t.Error("light and dark look the same")
	}
	m := newModel(nil, time.Second, top.NewOverview(top.Config{Sort: "rate"}))
	if got, want := m.style.alarm.Render("x"), newStyle(true).alarm.Render("x"); got != want {
		t.Errorf("without a known background, an alarm is %q, want %q", got, want)
	}
}

func TestScreenIsRestored(t *testing.T) {
	for _, m := range []*screenOf{shop(t), {model: &model{}}} { // also without a known size
		if v := m.View(); !v.AltScreen || v.WindowTitle != "kube-vmap top" {
			t.Errorf("the view is %+v", v)
		}
	}
}
