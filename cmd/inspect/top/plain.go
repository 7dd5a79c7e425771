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
func lines(ctx context.Context, c Config, ask poll, first *sheet) error {
	p := newOverview(c)
	p.show(first)
	wait := max(c.Interval, readInterval) // otherwise the first block might have no rates
	for n := 1; ; n++ {
		if !pause(ctx, wait) {
			return errStopped
		}
		start := time.Now()
		d, err := ask(p.query(c.Namespace))
		if ctx.Err() != nil {
			return errStopped
		}
		last := n == c.Count
		if err != nil && last {
			return err
		}
		if err == nil {
			p.show(p.sheetOf(d, p.sheet))
		} else {
			p.err, p.errAt = err, time.Now()
		}
		if err := write(c.Out, p, n > 1); err != nil || last {
			return err
		}
		wait = nextDelay(c.Interval, time.Since(start))
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
func write(w io.Writer, p *pane, more bool) error {
	var b bytes.Buffer
	if more {
		b.WriteByte('\n')
	}
	p.block(&b)
	if _, err := w.Write(b.Bytes()); err != nil && !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("print: %w", err)
	} else if err != nil {
		return errStopped
	}
	return nil
}

// errStopped ends top without an error: on a signal, or when the reader is gone.
var errStopped = errors.New("stopped")

// block writes the pane as lines.
func (p *pane) block(b *bytes.Buffer) {
	s := p.sheet
	fmt.Fprintln(b, s.sourceText())
	fmt.Fprintln(b, s.totals("services"))
	for _, w := range s.warnings() {
		fmt.Fprintln(b, w)
	}
	if p.err != nil {
		fmt.Fprintln(b, errorText(p.err, p.errAt))
	}
	if none := p.emptyText(); none != "" {
		fmt.Fprintln(b, none)
	}
	widths := p.widths()
	p.plainLine(b, widths, func(c *column) string { return c.title })
	for _, r := range p.shown {
		p.plainLine(b, widths, func(c *column) string { return c.text(r) })
	}
}

// widths returns the width of each column; less than 0 for hidden ones.
func (p *pane) widths() []int {
	out := make([]int, len(p.columns))
	for i := range p.columns {
		c := &p.columns[i]
		if !c.shown(p.sheet) {
			out[i] = -1
			continue
		}
		out[i] = width(c.title)
		for _, r := range p.shown {
			out[i] = max(out[i], width(c.text(r)))
		}
	}
	return out
}

// plainLine writes a line with a cell for each column.
func (p *pane) plainLine(b *bytes.Buffer, widths []int, text func(*column) string) {
	start := b.Len()
	for i, w := range widths {
		if w < 0 {
			continue
		}
		if b.Len() > start {
			b.WriteString(separator)
		}
		b.WriteString(pad(text(&p.columns[i]), w, p.columns[i].width > 0))
	}
	b.Truncate(start + len(bytes.TrimRight(b.Bytes()[start:], " ")))
	b.WriteByte('\n')
}
