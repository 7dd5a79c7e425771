// Package logring keeps the last lines of a log in memory, for the status socket and
// kube-vmap bundle. Warnings and errors are kept apart, so that no other lines displace them.
package logring

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxLines is how many lines of each kind are kept.
const maxLines = 200

// Log has the last lines of a log: those at level Warn or above, and those at Info or above. It
// is safe for concurrent use.
type Log struct{ warnings, all ring }

// A ring has the last lines of a kind.
type ring struct {
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

// Summary returns the summary of the warnings and errors.
func (l *Log) Summary() Summary { return l.warnings.summary() }

func (l *ring) summary() Summary {
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

// Text returns the warnings and errors, oldest first.
func (l *Log) Text() string { return l.warnings.text() }

// InfoText returns the lines at Info and above, oldest first.
func (l *Log) InfoText() string { return l.all.text() }

func (l *ring) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(slices.Concat(l.lines[l.next:], l.lines[:l.next]), "")
}

// Handler returns a handler that passes records on, and keeps them.
func (l *Log) Handler(next slog.Handler) slog.Handler {
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
