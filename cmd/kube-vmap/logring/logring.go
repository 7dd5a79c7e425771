// Package logring keeps the last warnings and errors of a log in memory, for the status
// socket and kube-vmap bundle.
package logring

import (
	"bytes"
	"context"
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

func (l *Log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < maxLines {
		l.lines = append(l.lines, line)
		return
	}
	l.lines[l.next] = line
	l.next = (l.next + 1) % maxLines
}

// Handler returns a handler that passes records on, and keeps warnings and errors.
func (l *Log) Handler(next slog.Handler) slog.Handler {
	return &handler{next: next, log: l, format: func(h slog.Handler) slog.Handler { return h }}
}

// handler formats each record that it keeps: format applies the logger's attributes and
// groups to a handler that writes one line.
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
