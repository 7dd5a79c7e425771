package output

import (
	"bytes"
	"strings"
	"testing"
)

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
