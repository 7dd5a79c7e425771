package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

// readInterval is how often a source reads its counters.
const readInterval = time.Second

// lines prints a block of lines for each interval, until there are enough or the context
// ends. The first answer is only compared with.
func lines(ctx context.Context, c Config, ask Poll, t *Table) error {
	wait := max(c.Interval, readInterval) // otherwise the first block might have no rates
	for n := 1; ; n++ {
		if !pause(ctx, wait) {
			return errStopped
		}
		start := time.Now()
		a, err := ask(t.Query())
		if ctx.Err() != nil {
			return errStopped
		}
		last := n == c.Count
		if err != nil && last {
			return err
		}
		if err == nil {
			t.Show(t.SheetOf(a, t.Sheet))
		} else {
			t.Err, t.ErrAt = err, time.Now()
		}
		if err := write(c.Out, t, n > 1); err != nil || last {
			return err
		}
		wait = NextDelay(c.Interval, time.Since(start))
	}
}

// pause waits, and reports false if the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// write writes a block, in one piece. A closed pipe is no error.
func write(w io.Writer, t *Table, more bool) error {
	var b bytes.Buffer
	if more {
		b.WriteByte('\n')
	}
	t.block(&b)
	if _, err := w.Write(b.Bytes()); err != nil && !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("print: %w", err)
	} else if err != nil {
		return errStopped
	}
	return nil
}

// errStopped ends top without an error: on a signal, or when the reader is gone.
var errStopped = errors.New("stopped")

// block writes the table as lines.
func (t *Table) block(b *bytes.Buffer) {
	s := t.Sheet
	fmt.Fprintln(b, s.SourceText())
	fmt.Fprintln(b, s.Totals("services"))
	for _, w := range s.Warnings() {
		fmt.Fprintln(b, w)
	}
	if t.Err != nil {
		fmt.Fprintln(b, ErrorText(t.Err, t.ErrAt))
	}
	if none := t.EmptyText(); none != "" {
		fmt.Fprintln(b, none)
	}
	widths := t.widths()
	t.plainLine(b, widths, func(c *Column) string { return c.Title })
	for _, r := range t.Shown {
		t.plainLine(b, widths, func(c *Column) string { return c.Text(r) })
	}
}

// widths returns the width of each column; less than 0 for hidden ones.
func (t *Table) widths() []int {
	out := make([]int, len(t.Columns))
	for i := range t.Columns {
		c := &t.Columns[i]
		if !c.shown(t.Sheet) {
			out[i] = -1
			continue
		}
		out[i] = width(c.Title)
		for _, r := range t.Shown {
			out[i] = max(out[i], width(c.Text(r)))
		}
	}
	return out
}

// plainLine writes a line with a cell for each column.
func (t *Table) plainLine(b *bytes.Buffer, widths []int, text func(*Column) string) {
	start := b.Len()
	for i, w := range widths {
		if w < 0 {
			continue
		}
		if b.Len() > start {
			b.WriteString(Separator)
		}
		b.WriteString(t.Columns[i].Pad(text(&t.Columns[i]), w))
	}
	b.Truncate(start + len(bytes.TrimRight(b.Bytes()[start:], " ")))
	b.WriteByte('\n')
}
