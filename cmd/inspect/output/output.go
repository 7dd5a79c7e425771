// Package output has the flag --output of commands, writes JSON and YAML as kubectl does, and
// makes names safe to print.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Formats are the values of --output, besides none, which is a table or text.
type Formats []string

// Formats of several commands.
var (
	JSON    = Formats{"json"}
	Objects = Formats{"json", "yaml"}
	Table   = Formats{"wide", "json", "yaml"}
)

// AddFlag adds the flag --output and its completion to a command.
func (f Formats) AddFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "output", "o", "", "output `format`: "+f.String())
	// The only error is that the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(f, cobra.ShellCompDirectiveNoFileComp))
}

// Check returns an error that names the formats if the value of the flag is none of them.
func (f Formats) Check(format string) error {
	if format == "" || slices.Contains(f, format) {
		return nil
	}
	return fmt.Errorf("-o %s: use %s", format, f)
}

// String returns "wide, json or yaml".
func (f Formats) String() string {
	last := len(f) - 1
	if last == 0 {
		return f[0]
	}
	return strings.Join(f[:last], ", ") + " or " + f[last]
}

// IsObject reports whether a format is one that [Write] writes.
func IsObject(format string) bool { return format == "json" || format == "yaml" }

// Write writes a value as JSON or YAML.
func Write(w io.Writer, format string, value any) error {
	text, err := json.MarshalIndent(value, "", "    ")
	if err == nil && format == "yaml" {
		text, err = yaml.JSONToYAML([]byte(CleanText(string(text)))) // which refuses control characters
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", format, err)
	}
	_, err = fmt.Fprintln(w, CleanText(strings.TrimSuffix(string(text), "\n")))
	return err
}

// WriteLine writes a value as JSON in a line.
func WriteLine(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write json: %w", err)
	}
	_, err = fmt.Fprintln(w, CleanText(string(text)))
	return err
}

// WriteList writes a list of objects and what sums them up.
func WriteList(w io.Writer, format string, items, summary any) error {
	return Write(w, format, struct {
		Kind    string `json:"kind"`
		Items   any    `json:"items"`
		Summary any    `json:"summary"`
	}{"List", items, summary})
}

// Clean makes a text safe to print in a line: names from the API could contain control
// characters, escape sequences, or marks that reverse text. They become question marks.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		// Combining marks are printable, but change the character before them.
		if !unicode.IsPrint(r) || unicode.Is(unicode.M, r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, s)
}

// CleanText returns a text of several lines for a terminal: control characters, with which a node
// or an object could write anything there, are replaced by ?, and so are the ones that reverse the
// order of others, and separators of lines and paragraphs.
func CleanText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return '?'
		}
		return r
	}, text)
}

// CleanLine is [CleanText] in one line: with a line break, a node could add a row to a table.
func CleanLine(text string) string {
	return CleanText(strings.NewReplacer("\n", "; ", "\t", " ").Replace(text))
}

// Widths of columns, as kubectl has them.
const (
	minWidth = 6
	padding  = 3
)

// Columns writes rows of aligned cells, some at a time. Later rows may widen columns.
type Columns struct {
	W      io.Writer
	widths []int
}

// Print writes rows, which all have the same number of cells. It cleans the cells, and gives words
// for a severity a colour on a terminal.
func (c *Columns) Print(rows [][]string) error {
	for _, cells := range rows {
		if c.widths == nil {
			c.widths = make([]int, len(cells))
		}
		for i := range cells {
			cells[i] = Clean(cells[i])
			cell := cells[i]
			c.widths[i] = max(c.widths[i], minWidth, utf8.RuneCountInString(cell)+padding)
		}
	}
	var text bytes.Buffer
	coloured := HasColour(c.W)
	for _, cells := range rows {
		last := len(cells) - 1
		for i, cell := range cells[:last] {
			text.WriteString(Colour(cell, coloured) + strings.Repeat(" ", c.widths[i]-utf8.RuneCountInString(cell)))
		}
		text.WriteString(Colour(cells[last], coloured) + "\n")
	}
	_, err := c.W.Write(text.Bytes())
	return err
}

// Begun reports whether there were rows.
func (c *Columns) Begun() bool { return c.widths != nil }

// Print writes a table of rows once.
func Print(w io.Writer, rows [][]string) error { return (&Columns{W: w}).Print(rows) }

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
