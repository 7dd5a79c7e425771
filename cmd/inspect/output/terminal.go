package output

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// HasColour reports whether words for a severity get a colour: on a terminal, unless the user does
// not want it (https://no-color.org).
func HasColour(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	green  = "\x1b[32m"
	reset  = "\x1b[0m"
)

// colours has the colours of words, in small letters.
var colours = map[string]string{
	"problem": red, "unknown": red, "false": red, "notice": yellow, "ok": green, "true": green,
}

// Colour returns a word for a severity with its colour; other texts as they are.
func Colour(word string, coloured bool) string {
	c := colours[strings.ToLower(strings.TrimSpace(word))]
	if !coloured || c == "" {
		return word
	}
	return c + word + reset
}

// Width returns how many columns a text may have: as many as the terminal, if its shell exports that,
// and zero for no limit if the writer is not a terminal.
func Width(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= minTextWidth {
		return n
	}
	return usualWidth
}

const (
	minTextWidth = 40
	usualWidth   = 100
)

// Wrap returns a text in lines with an indentation, each of at most width columns where there are
// blanks; a width of zero means one line.
func Wrap(text, indent string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == 0:
			b.WriteString(indent)
			column = len(indent)
		case width > 0 && column+1+n > width:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// Progress prints a line for a user who waits at a terminal.
func Progress(w io.Writer, line string) {
	if isTerminal(w) {
		_, _ = io.WriteString(w, line+"\n")
	}
}
