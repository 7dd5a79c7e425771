package output

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

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

// Print writes rows, which all have the same number of cells.
func (c *Columns) Print(rows [][]string) error {
	for _, cells := range rows {
		if c.widths == nil {
			c.widths = make([]int, len(cells))
		}
		for i, cell := range cells {
			c.widths[i] = max(c.widths[i], minWidth, utf8.RuneCountInString(cell)+padding)
		}
	}
	var text bytes.Buffer
	for _, cells := range rows {
		last := len(cells) - 1
		for i, cell := range cells[:last] {
			text.WriteString(cell + strings.Repeat(" ", c.widths[i]-utf8.RuneCountInString(cell)))
		}
		text.WriteString(cells[last] + "\n")
	}
	_, err := c.W.Write(text.Bytes())
	return err
}

// Begun reports whether there were rows.
func (c *Columns) Begun() bool { return c.widths != nil }

// Print writes a table of rows once.
func Print(w io.Writer, rows [][]string) error { return (&Columns{W: w}).Print(rows) }
