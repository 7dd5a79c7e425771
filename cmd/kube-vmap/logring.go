package main

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
)

// maxLines is how many lines of each kind are kept.
const maxLines = 200

// A logRing keeps the last lines of a log in memory, for the status socket and kube-vmap bundle.
// Warnings and errors are kept apart, so that no other lines displace them. It is safe for
// concurrent use.
type logRing struct{ warnings, all ring }

// A ring has the last lines of a kind.
type ring struct {
	mu    sync.Mutex
	lines []string
	next  int // index of the oldest line, once the ring is full
	count int // of all lines so far
}

// summary returns how many lines were logged, and of the last one the time and the rest.
func (l *ring) summary() nodestatus.Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := nodestatus.Count{Count: l.count}
	if len(l.lines) == 0 {
		return s
	}
	line := l.lines[(l.next+len(l.lines)-1)%len(l.lines)]
	at, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	s.Last, _ = time.Parse(time.RFC3339Nano, strings.TrimPrefix(at, slog.TimeKey+"=")) // of slog.TextHandler
	s.Text = text
	return s
}

// text returns the lines, oldest first.
func (l *ring) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(slices.Concat(l.lines[l.next:], l.lines[:l.next]), "")
}

// handler returns a handler that passes records on, and keeps them.
func (l *logRing) handler(next slog.Handler) slog.Handler {
	return slog.NewMultiHandler(next,
		slog.NewTextHandler(&l.warnings, &slog.HandlerOptions{Level: slog.LevelWarn}),
		slog.NewTextHandler(&l.all, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// Write implements [io.Writer]; [slog.TextHandler] writes each line in one call.
func (l *ring) Write(line []byte) (int, error) {
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
