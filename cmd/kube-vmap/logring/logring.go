// Package logring keeps the last warnings and errors of a log in memory, for the status
// socket and kube-vmap bundle.
package logring

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxLines is how many lines are kept.
const maxLines = 200

// Log has the last lines of a log at level Warn or above. It is safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	lines []string
	next  int // index of the oldest line, once the ring is full
	count int // of all lines so far
}

// A Summary is how much was logged, and the last line.
type Summary struct {
	Count int // since the process started
	// Last is the time of the last line, and Text the rest of it.
	Last time.Time
	Text string
}

// Summary returns the summary of the log.
func (l *Log) Summary() Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Summary{Count: l.count}
	if len(l.lines) == 0 {
		return s
	}
	line := l.lines[(l.next+len(l.lines)-1)%len(l.lines)]
	at, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	s.Last, _ = time.Parse(time.RFC3339Nano, strings.TrimPrefix(at, slog.TimeKey+"=")) // of slog.TextHandler
	s.Text = text
	return s
}

// Text returns the lines, oldest first.
func (l *Log) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(slices.Concat(l.lines[l.next:], l.lines[:l.next]), "")
}

// Handler returns a handler that passes records on, and keeps warnings and errors.
func (l *Log) Handler(next slog.Handler) slog.Handler {
	return slog.NewMultiHandler(next, slog.NewTextHandler(writer{l}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// writer adds lines to a log; [slog.TextHandler] writes each line in one call.
type writer struct{ log *Log }

// Write implements [io.Writer].
func (w writer) Write(line []byte) (int, error) {
	l := w.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if len(l.lines) < maxLines {
		l.lines = append(l.lines, string(line))
	} else {
		l.lines[l.next] = string(line)
		l.next = (l.next + 1) % maxLines
	}
	return len(line), nil
}
