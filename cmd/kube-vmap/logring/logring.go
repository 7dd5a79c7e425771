// Package logring keeps the last warnings and errors of a log in memory, for the status
// socket and kube-vmap bundle.
package logring

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// maxLines is how many lines are kept.
const maxLines = 200

// Log has the last lines of a log at level Warn or above. It is safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	lines []string
	next  int // index of the oldest line, once the ring is full
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
	if len(l.lines) < maxLines {
		l.lines = append(l.lines, string(line))
	} else {
		l.lines[l.next] = string(line)
		l.next = (l.next + 1) % maxLines
	}
	return len(line), nil
}
