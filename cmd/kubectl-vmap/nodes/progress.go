package nodes

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// When progress is shown, and how often.
const (
	progressDelay    = time.Second // shorter work shows none
	progressNodes    = 10          // more than these show it immediately
	progressInterval = 100 * time.Millisecond
)

// clearLine moves to the beginning of the line and deletes it (ECMA-48: EL).
const clearLine = "\r\x1b[K"

// progress is a line on a terminal that counts the nodes which have answered.
type progress struct {
	to        io.Writer // nil shows nothing
	all       int
	end, over chan struct{}

	mu    sync.Mutex // guards what follows, and the terminal
	n     int
	shown bool
}

func newProgress(to io.Writer, all int) *progress {
	p := &progress{to: to, all: all, end: make(chan struct{}), over: make(chan struct{})}
	if to != nil {
		go p.run()
	}
	return p
}

// run draws the line until stop.
func (p *progress) run() {
	defer close(p.over)
	delay := progressDelay
	if p.all > progressNodes {
		delay = progressInterval
	}
	for {
		select {
		case <-time.After(delay):
			p.mu.Lock()
			_, _ = fmt.Fprintf(p.to, "%s%d of %d nodes", clearLine, p.n, p.all)
			p.shown = true
			p.mu.Unlock()
			delay = progressInterval
		case <-p.end:
			p.mu.Lock()
			p.clear()
			p.mu.Unlock()
			return
		}
	}
}

// during counts a node, and calls fn while the terminal has no line of progress.
func (p *progress) during(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.n++
	fn()
}

// clear deletes the line. The caller holds the lock.
func (p *progress) clear() {
	if p.shown {
		_, _ = io.WriteString(p.to, clearLine)
		p.shown = false
	}
}

// stop deletes the line, and ends drawing.
func (p *progress) stop() {
	close(p.end)
	if p.to != nil {
		<-p.over
	}
}
