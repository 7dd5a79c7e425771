package main

import (
	"io"
	"log/slog"

	"kube-vmap/cmd/kube-vmap/config"
)

// newLogger returns the configured logger, which also keeps warnings and errors in ring,
// and its level, which may be changed.
func newLogger(c *config.Config, w io.Writer, ring *logRing) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	level.Set(logLevel(c.Verbosity()))
	h := &slog.HandlerOptions{Level: level, ReplaceAttr: roundLevel}
	var handler slog.Handler = slog.NewTextHandler(w, h)
	if c.LogFormat() == "json" {
		handler = slog.NewJSONHandler(w, h)
	}
	return slog.New(ring.handler(handler)), level
}

func logWarnings(c *config.Config, log *slog.Logger) {
	for _, w := range c.Warnings {
		log.Warn("configuration", "warning", w)
	}
}

// logLevel returns the level for a -v. klog's V(n) is slog's level -n, so that 2 logs a
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
