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

// news is after how long a source has read its counters again, if it is asked.
const news = time.Second

// lines prints a block of lines for each interval, until there were enough or the
// context ends. The first answer is there to compare with, and is not printed.
func lines(ctx context.Context, c Config, ask poll, first *sheet) error {
	p := newOverview(c)
	p.show(first)
	wait := max(c.Interval, news) // or else there might be no rates at first
	for n := 1; ; n++ {
		if !pause(ctx, wait) {
			return errOver
		}
		start := time.Now()
		d, err := ask(p.query(c.Namespace))
		if ctx.Err() != nil {
			return errOver
		}
		last := n == c.Count
		if err != nil && last {
			return err
		}
		if err == nil {
			p.show(p.sheetOf(d, p.sheet))
		} else {
			p.trouble, p.troubleAt = err, time.Now()
		}
		if err := write(c.Out, p, n > 1); err != nil || last {
			return err
		}
		wait = rest(c.Interval, time.Since(start))
	}
}

// pause waits; it reports whether there is anything to go on for.
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

// write writes a block, in one piece. Nobody being there to read any more is no
// error.
func write(w io.Writer, p *pane, more bool) error {
	var b bytes.Buffer
	if more {
		b.WriteByte('\n')
	}
	p.block(&b)
	if _, err := w.Write(b.Bytes()); err != nil && !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("print: %w", err)
	} else if err != nil {
		return errOver
	}
	return nil
}

// errOver tells that it is over, which is no error to those who ended it: by a
// signal, or by reading no more.
var errOver = errors.New("over")

// block writes what a pane shows as lines.
func (p *pane) block(b *bytes.Buffer) {
	s := p.sheet
	fmt.Fprintln(b, s.identity())
	fmt.Fprintln(b, s.sums("services"))
	for _, w := range s.warnings() {
		fmt.Fprintln(b, w)
	}
	if p.trouble != nil {
		fmt.Fprintln(b, troubleText(p.trouble, p.troubleAt))
	}
	if none := p.nothing(); none != "" {
		fmt.Fprintln(b, none)
	}
	widths := p.widths()
	p.plainLine(b, widths, func(c *column) string { return c.title })
	for _, r := range p.shown {
		p.plainLine(b, widths, func(c *column) string { return c.text(r) })
	}
}

// widths are what each column needs; less than 0 for one that is not shown.
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

// plainLine writes a line of a cell for each column.
func (p *pane) plainLine(b *bytes.Buffer, widths []int, text func(*column) string) {
	start := b.Len()
	for i, w := range widths {
		if w < 0 {
			continue
		}
		if b.Len() > start {
			b.WriteString(between)
		}
		b.WriteString(pad(text(&p.columns[i]), w, p.columns[i].width > 0))
	}
	b.Truncate(start + len(bytes.TrimRight(b.Bytes()[start:], " ")))
	b.WriteByte('\n')
}
