package screen

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top/toptest"
)

func TestSecondAnswerHasRates(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1)}})
	m.onScreen(" - ", "- conn/s", "3 services", "node node-1", "version 1.0")
	m.tick()
	m.onScreen(" 54.0 ", " 30.0 ", " 6.0 ", "90.0 conn/s", "36 active")
}

func TestKeysMoveTheSelection(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Document(0, toptest.Crowd(100, 0)...)}})
	m.size(100, fixedLines+10)
	for _, step := range []struct {
		key  string
		want int
	}{
		{"down", 1},
		{"j", 2},
		{"up", 1},
		{"k", 0},
		{"up", 0},
		{"pgdown", 10},
		{"pgdown", 20},
		{"pgup", 10},
		{"end", 99},
		{"down", 99},
		{"pgdown", 99},
		{"pgup", 89},
		{"home", 0},
		{"pgup", 0},
		{"G", 99},
		{"g", 0},
	} {
		m.press(step.key)
		if got, want := m.under(), fmt.Sprintf("service-%05d", step.want); got != want {
			t.Fatalf("%s selects %s, want %s", step.key, got, want)
		}
	}
}

func TestOnlyVisibleRowsAreDrawn(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Document(0, toptest.Crowd(100, 0)...)}})
	m.size(100, fixedLines+10)
	for range 60 {
		m.press("down")
		if lines := strings.Count(m.draw(), "\n") + 1; lines != fixedLines+10 {
			t.Fatalf("%d lines, want %d:\n%s", lines, fixedLines+10, m.draw())
		}
	}
	m.onScreen("service-00051", "service-00060")
	m.notOnScreen("service-00050", "service-00061")
	m.size(100, fixedLines+3)
	if m.under() != "service-00060" {
		t.Errorf("on a smaller screen %s is selected", m.under())
	}
	m.size(100, 1)
	_ = m.under()
}

func TestSelectionFollowsItsRow(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Three(0), toptest.Document(1, toptest.Service("a", "slow", 1, 3), toptest.Service("b", "quick", 2, 1), toptest.Service("c", "middle", 3, 2)), toptest.Three(2)}})
	m.press("down")
	was := m.under()
	m.tick()
	m.tick()
	m.press("r", "4", "1")
	if m.under() != was {
		t.Errorf("%s is selected, %s was", m.under(), was)
	}
	m.press("home")
	m.press("3")
	if m.under() != "quick" {
		t.Errorf("%s is first, want quick", m.under())
	}
	m.press("r")
	if m.under() != "slow" {
		t.Errorf("%s is first the other way round, want slow: the first place stays selected", m.under())
	}
}

func TestHeaderMarksTheSortColumn(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Three(0)}})
	for _, step := range []struct{ key, want string }{
		{"1", "NAMESPACE▲"},
		{"1", "NAMESPACE▼"},
		{"2", "SERVICE▲"},
		{"r", "SERVICE▼"},
		{"3", "CONN/S▼"},
		{"3", "CONN/S▲"},
		{"s", "ACTIVE▼"},
		{"s", "CONNECTIONS▼"},
		{"s", "ENDPOINTS▼"},
		{"s", "STATUS▼"},
		{"s", "NAMESPACE▲"},
		{"5", "CONNECTIONS▼"},
	} {
		m.press(step.key)
		m.onScreen(step.want)
		if n := strings.Count(m.draw(), "▲") + strings.Count(m.draw(), "▼"); n != 1 {
			t.Errorf("after %s there are %d signs", step.key, n)
		}
	}
}

func TestSearchFollowsEachKey(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1)}})
	m.press("/")
	m.write("qui")
	m.onScreen("/qui", "1 found", "quick")
	m.notOnScreen("slow")
	m.press("backspace", "backspace", "backspace")
	m.onScreen("slow")
	m.write("sq") // keys that have other meanings
	m.onScreen("/sq", "0 found")
	m.press("backspace", "enter")
	m.onScreen("/s", "1 found, Esc shows all")
	m.tick()
	m.notOnScreen("quick")
	m.press("/")
	m.write("low")
	m.onScreen("/slow")
	m.press("esc")
	m.onScreen("quick", "slow")
	m.notOnScreen("found")
	m.press("/")
	m.write("quick")
	m.press("enter", "esc")
	m.onScreen("slow")
}

func TestEnterShowsOneServiceAndEscReturns(t *testing.T) {
	s := &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1), toptest.Three(2), toptest.Three(3), toptest.Three(4)}}
	m := newScreen(t, s)
	m.tick()
	m.press("down", "enter")
	m.onScreen("c/middle", "ClusterIP", "10.96.0.1:80/tcp", "NodePort", "*:30080/sctp", "p TCP IPv6")
	m.size(100, 40)
	m.onScreen("endpoint", "10.244.1.1:8080", "[fd00:10:244:1::1]:8080", "serves, on node-1", "! NotReady")
	if q := s.Asked[len(s.Asked)-1]; q != (status.Query{Namespace: "c", Name: "middle"}) {
		t.Errorf("it asked for %+v", q)
	}
	m.tick()
	m.onScreen("30.0 conn/s", " 5.0 ")
	m.press("/")
	m.write("endpoint")
	m.press("enter")
	m.notOnScreen("ClusterIP")
	m.press("esc", "esc")
	m.onScreen("3 services", "> c")
	if q := s.Asked[len(s.Asked)-1]; q.Name != "" {
		t.Errorf("it asked for %+v", q)
	}
	m.press("esc") // nothing to go back to
	m.onScreen("3 services")
}

func TestLateAnswerIsIgnored(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1), toptest.Three(2)}})
	_, ask := m.Update(tick{m.generation})
	if _, cmd := m.Update(keyOf("enter")); cmd != nil {
		t.Error("there are two questions at a time")
	}
	m.onScreen("a/slow", "asking")
	if _, again := m.Update(ask()); again == nil {
		t.Error("the Service is not asked for")
	} else {
		m.send(again())
	}
	m.onScreen("a/slow", "*:30080")
}

func TestDeletedServiceIsReported(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1), toptest.Document(2)}})
	m.press("enter")
	m.tick()
	m.onScreen("a/slow", "! nothing of it is programmed")
}

func TestProblemsOfAServiceAreShown(t *testing.T) {
	s := toptest.Service("a", "web", 0, 0)
	for i := range 4 {
		s.Problems = append(s.Problems, toptest.Problem("a", "web", fmt.Sprintf("reason %d", i)))
	}
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Document(0, s)}})
	m.size(150, 30)
	m.onScreen("! 1 with problems", "! Unusable: reason 0 (and 3 more)")
	m.press("enter")
	m.onScreen("! Unusable\n", "! Service a/web: Unusable: reason 0", "! (and 1 more) Service a/web: Unusable: reason 2")
	m.notOnScreen("reason 3")
	if n := strings.Count(m.draw(), "\n") + 1; n != 30 {
		t.Errorf("%d lines on a screen of 30", n)
	}
}

func TestErrorIsShownBesideTheLastNumbers(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1), errors.New("the socket\nis gone"), toptest.Three(3)}})
	m.tick()
	m.tick()
	m.onScreen("the socket?is gone", " 54.0 ", m.pane().ErrAt.Format("! 15:04:05"))
	m.tick()
	m.onScreen(" 54.0 ") // over two seconds
	m.notOnScreen("the socket")
}

func TestPauseStopsQueries(t *testing.T) {
	s := &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1)}}
	m := newScreen(t, s)
	m.press("p")
	m.onScreen("! paused")
	m.tick()
	if len(s.Asked) != 1 {
		t.Errorf("%d questions", len(s.Asked))
	}
	m.press("p")
	m.notOnScreen("paused")
	m.onScreen(" 54.0 ")
}

func TestFastPathColumnShowsWhereItIsOn(t *testing.T) {
	d := toptest.Three(0)
	d.Health = &status.Health{FastPath: &status.FastPath{On: true}}
	m := newScreen(t, &toptest.Script{Answers: []any{d}})
	m.press("5")
	m.onScreen("FAST-PATH▼", "36 active  0 on the fast path")
	m.press("8")
	m.onScreen("STATUS▼")
}

func TestOnlyActiveColumnShowsWithoutCounting(t *testing.T) {
	d := toptest.Three(0)
	d.Counted = false
	m := newScreen(t, &toptest.Script{Answers: []any{d}})
	m.onScreen("not counted (--count-connections=false)", "ACTIVE▼", "36 active")
	m.notOnScreen("CONN/S", "conn/s", "CONNECTIONS")
	if m.under() != "slow" {
		t.Errorf("%s is first, want slow, which has the most active", m.under())
	}
	m.press("3")
	m.onScreen("ACTIVE▲")
	m.press("3", "6", "8") // the last two do not exist
	m.onScreen("ACTIVE▼")
	m.press("s")
	m.onScreen("ENDPOINTS▼")
}

func TestKeysQuit(t *testing.T) {
	for _, keys := range [][]string{{"q"}, {"ctrl+c"}, {"/", "q", "ctrl+c"}, {"enter", "q"}, {"?", "q"}, {"?", "ctrl+c"}} {
		m := newScreen(t, &toptest.Script{Answers: []any{toptest.Three(0)}})
		last := len(keys) - 1
		m.press(keys[:last]...)
		_, cmd := m.Update(keyOf(keys[last]))
		if cmd == nil {
			t.Errorf("%v do nothing", keys)
		} else if _, quits := cmd().(tea.QuitMsg); !quits {
			t.Errorf("%v do not end it", keys)
		}
	}
}

func TestHelpOpensAndCloses(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Three(0)}})
	m.size(100, 24)
	m.press("?")
	m.onScreen("reverse", "page down", "CONN/S       new connections")
	if n := strings.Count(m.draw(), "\n") + 1; n != 24 {
		t.Errorf("%d lines on a screen of 24", n)
	}
	m.press("esc")
	m.onScreen("slow")
	m.press("?", "?")
	m.onScreen("slow")
}

func TestSearchDoesNotReadTheClipboard(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Three(0)}})
	m.press("/")
	if _, cmd := m.Update(keyOf("ctrl+v")); cmd != nil {
		t.Error("something is done")
	}
}

func TestPasteOnlyFillsTheSearch(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1)}})
	m.send(tea.PasteMsg{Content: "q/p"})
	m.onScreen("3 services")
	m.notOnScreen("found", "paused")
	m.press("/")
	m.write("quick")
	m.send(tea.PasteMsg{Content: "\x1b[31mr\ned"})
	m.onScreen("/quick[31mr ed", "0 found")
}

func TestSpaceTurnsThePage(t *testing.T) {
	m := newScreen(t, &toptest.Script{Answers: []any{toptest.Document(0, toptest.Crowd(100, 0)...)}})
	m.size(100, fixedLines+10)
	m.press(" ")
	if got := m.under(); got != "service-00010" {
		t.Errorf("it selects %s", got)
	}
}
