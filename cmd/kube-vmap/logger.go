package main

import (
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kube-vmap/config"
)

// newLogger returns the configured logger, which also keeps warnings and errors in ring,
// and its level, which may be changed.
func newLogger(c *config.Config, w io.Writer, ring *logRing) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	level.Set(logLevel(c.Verbosity()))
	h := &slog.HandlerOptions{Level: level, ReplaceAttr: roundLevel}
	var handler slog.Handler = slog.NewTextHandler(w, h)
	if c.Proxy.Logging.Format == "json" {
		handler = slog.NewJSONHandler(w, h)
	}
	return slog.New(ring.handler(handler)), level
}

// logLevel returns the level for a -v. klog's V(n) is slog's level -n, so 2 logs a
// line for each batch and 4 its content.
func logLevel(verbosity int) slog.Level { return slog.LevelInfo - slog.Level(max(verbosity, 0)) }

// roundLevel prints levels between two named ones as the upper one, where slog would
// print an offset from the lower one.
func roundLevel(groups []string, a slog.Attr) slog.Attr {
	level, ok := a.Value.Any().(slog.Level)
	switch {
	case !ok || len(groups) > 0 || a.Key != slog.LevelKey:
	case level > slog.LevelDebug && level < slog.LevelInfo:
		a.Value = slog.AnyValue(slog.LevelInfo)
	case level < slog.LevelDebug:
		a.Value = slog.AnyValue(slog.LevelDebug)
	}
	return a
}

// maxLines is how many lines of each kind are kept.
const maxLines = 200

// A logRing keeps the last lines of a log in memory, for the status socket and kube-vmap bundle.
// Warnings and errors are kept apart, so no other lines displace them. It is safe for
// concurrent use.
type logRing struct{ warnings, all ring }

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
