package screen

import (
	"testing"
	"unicode"

	"kube-vmap/cmd/inspect/top/toptest"
)

func FuzzNamesAreEscapedForTheTerminal(f *testing.F) {
	f.Add("web", "\x1b[2J\x1b]52;c;aGk=\x07", "text\r\n\u202e")
	f.Add("\u009b2J", "", "\x00\xff")
	f.Fuzz(func(t *testing.T, namespace, name, problem string) {
		m := newScreen(t, &toptest.Script{Answers: []any{toptest.Hostile(namespace, name, problem)}})
		m.size(120, 30)
		for range 2 {
			for _, r := range m.draw() {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Fatalf("%q is on the screen:\n%q", r, m.draw())
				}
			}
			m.press("enter")
		}
	})
}
