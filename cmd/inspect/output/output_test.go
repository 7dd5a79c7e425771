package output

import (
	"bytes"
	"strings"
	"testing"
)

func TestWriteList(t *testing.T) {
	for format, want := range map[string]string{
		"json": "{\n    \"kind\": \"List\",\n    \"items\": [\n        1\n    ],\n    \"summary\": \"one\"\n}\n",
		"yaml": "items:\n- 1\nkind: List\nsummary: one\n",
	} {
		var out strings.Builder
		if err := WriteList(&out, format, []int{1}, "one"); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v, not %q", format, out.String(), err, want)
		}
	}
}

func TestFormatsAreChecked(t *testing.T) {
	for _, format := range append(Table, "") {
		if err := Table.Check(format); err != nil {
			t.Errorf("%q: %v", format, err)
		}
	}
	if err := Table.Check("xml"); err == nil || err.Error() != "-o xml: use wide, json or yaml" {
		t.Errorf("xml: %v", err)
	}
	if err := JSON.Check("xml"); err == nil || err.Error() != "-o xml: use json" {
		t.Errorf("xml: %v", err)
	}
}

func TestUnprintableRunesBecomeQuestionMarks(t *testing.T) {
	for text, want := range map[string]string{
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

// TestWordsHaveAColourOnATerminalOnly has a table that goes to a buffer, and the words of one.
func TestWordsHaveAColourOnATerminalOnly(t *testing.T) {
	var b bytes.Buffer
	if err := Print(&b, [][]string{{"Problem", "x"}}); err != nil || b.String() != "Problem   x\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	for word, want := range map[string]string{"Problem": "\x1b[31mProblem\x1b[0m", "NOTICE": "\x1b[33mNOTICE\x1b[0m", "web": "web"} {
		if got := Colour(word, true); got != want || Colour(word, false) != word {
			t.Errorf("%q", got)
		}
	}
	t.Setenv("NO_COLOR", "1")
	if HasColour(&b) {
		t.Error("with NO_COLOR")
	}
}

func TestTextsAreWrappedAtBlanks(t *testing.T) {
	if got := Wrap("none of its 3 endpoints has the port", "  ", 16); got != "  none of its 3\n  endpoints has\n  the port" {
		t.Errorf("%q", got)
	}
	if got := Wrap("none of\nits 3 endpoints", "  ", 0); got != "  none of its 3 endpoints" {
		t.Errorf("%q", got)
	}
}

// TestNoTextReachesATerminalRaw has names with escape sequences, and the mark that reverses text.
func TestNoTextReachesATerminalRaw(t *testing.T) {
	const evil = "a\x1b]0;owned\x07\u009b2J\u202eb"
	var b bytes.Buffer
	_ = Print(&b, [][]string{{"NAME", "TEXT"}, {evil, evil}}) // a buffer has no errors
	for _, format := range []string{"json", "yaml"} {
		_ = Write(&b, format, map[string]string{evil: evil})
	}
	b.WriteString(CleanText(evil))
	if strings.ContainsAny(b.String(), "\x1b\x07\u009b\u202e") {
		t.Errorf("%q", b.String())
	}
}
