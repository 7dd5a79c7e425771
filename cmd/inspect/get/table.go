package get

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

// table writes aligned lines, some at a time. Later lines may widen columns.
type table struct {
	w      io.Writer
	widths []int
}

// print writes lines, which all have the same number of cells.
func (t *table) print(lines [][]string) error {
	for _, cells := range lines {
		if t.widths == nil {
			t.widths = make([]int, len(cells))
		}
		for i, cell := range cells {
			t.widths[i] = max(t.widths[i], minWidth, utf8.RuneCountInString(cell)+padding)
		}
	}
	var text bytes.Buffer
	for _, cells := range lines {
		last := len(cells) - 1
		for i, cell := range cells[:last] {
			text.WriteString(cell + strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)))
		}
		text.WriteString(cells[last] + "\n")
	}
	_, err := t.w.Write(text.Bytes())
	return err
}
