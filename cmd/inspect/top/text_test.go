package top

import (
	"testing"
	"unicode"
)

func TestUnprintableRunesBecomeQuestionMarks(t *testing.T) {
	for text, want := range map[string]string{
		"web":                 "web",
		"größe 大":             "größe 大",
		"\x1b[31mred":         "?[31mred",
		"two\nlines\r\tand":   "two?lines??and",
		"\u009b31m":           "?31m", // an escape sequence in one character
		"a\u202eb":            "a?b",  // reverses the direction
		"a\u200bb":            "a?b",  // invisible
		"a\u0301":             "a?",   // changes the character before it
		"\xff\xfe":            "??",
		"\x1b]0;title\x07web": "?]0;title?web",
	} {
		if got := clean(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func FuzzNamesAreEscapedForTheTerminal(f *testing.F) {
	f.Add("web", "\x1b[2J\x1b]52;c;aGk=\x07", "text\r\n\u202e")
	f.Add("\u009b2J", "", "\x00\xff")
	f.Fuzz(func(t *testing.T, namespace, name, problem string) {
		s := service(namespace, name, 1, 1)
		s.Problems = append(s.Problems, problemOf(namespace, name, problem))
		s.Ports[0].Name = name
		s.Ports[0].Frontends[0].Kind = problem
		s.Ports[0].Endpoints[1].Reason = problem
		s.Ports[0].Endpoints[0].Node = namespace
		d := document(1, s)
		d.Node, d.Version, d.Source = name, namespace, problem
		d.Problems = s.Problems
		m := newScreen(t, &script{answers: []any{d}})
		m.size(120, 30)
		for range 2 {
			for _, r := range m.draw() {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Fatalf("%q is on the screen:\n%q", r, m.draw())
				}
			}
			m.press("enter")
		}
		for _, r := range plainText(m.overview) {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q is in a line:\n%q", r, plainText(m.overview))
			}
		}
	})
}
