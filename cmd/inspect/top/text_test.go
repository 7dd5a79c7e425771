package top

import (
	"testing"
	"unicode"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top/toptest"
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
		if got := Clean(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestWideRunesTakeTwoColumns(t *testing.T) {
	for text, want := range map[string]int{"": 0, "web": 3, "größe": 5, "大小": 4, "ｗ": 2, "🐳": 2} {
		if got := width(text); got != want {
			t.Errorf("the width of %q is %d, want %d", text, got, want)
		}
	}
	if got := pad("大", 4, true) + "|" + pad("大", 4, false) + "|" + pad("long", 2, true); got != "  大|大  |long" {
		t.Errorf("padded to %q", got)
	}
}

func FuzzNamesAreEscapedInLines(f *testing.F) {
	f.Add("web", "\x1b[2J\x1b]52;c;aGk=\x07", "text\r\n\u202e")
	f.Add("\u009b2J", "", "\x00\xff")
	f.Fuzz(func(t *testing.T, namespace, name, problem string) {
		d := toptest.Hostile(namespace, name, problem)
		for _, documents := range [][]*status.Document{{d}, {d, d}} {
			table := NewOverview(Config{Sort: "rate"})
			table.Show(table.SheetOf(Answer{Documents: documents, Failed: []string{problem}}, nil))
			for _, r := range plainText(table) {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Fatalf("%q is in a line:\n%q", r, plainText(table))
				}
			}
		}
	})
}
