// Package logring keeps the last lines of a log that matter, so that whoever looks at
// a process later need not have its log.
package logring

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// kept is how many lines are kept.
const kept = 200

// Log is the last lines of a log that are warnings or worse, as text. It is safe for
// use by several goroutines.
type Log struct {
	mu    sync.Mutex
	lines []string
	next  int // where the next line goes, once all places are taken
}

// Text is the lines in their order, each with its end.
func (l *Log) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(slices.Concat(l.lines[l.next:], l.lines[:l.next]), "")
}

func (l *Log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < kept {
		l.lines = append(l.lines, line)
		return
	}
	l.lines[l.next] = line
	l.next = (l.next + 1) % kept
}

// Handler passes records on to another handler and keeps those that matter.
func (l *Log) Handler(next slog.Handler) slog.Handler {
	return &handler{next: next, log: l, format: func(h slog.Handler) slog.Handler { return h }}
}

// handler formats each record anew: what was added to the logger is told in the same
// words to a handler that writes one line.
type handler struct {
	next   slog.Handler
	log    *Log
	format func(slog.Handler) slog.Handler
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.next.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		var line bytes.Buffer
		if err := h.format(slog.NewTextHandler(&line, nil)).Handle(ctx, r); err == nil {
			h.log.add(line.String())
		}
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.next.WithAttrs(attrs), h.log, func(to slog.Handler) slog.Handler { return h.format(to).WithAttrs(attrs) }}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.next.WithGroup(name), h.log, func(to slog.Handler) slog.Handler { return h.format(to).WithGroup(name) }}
}
