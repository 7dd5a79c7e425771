package output

import (
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
