package main

import (
	"io"
	"log/slog"

	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/logring"
)

// newLogger makes the log that the configuration asks for, and its level, which
// may change. What matters of it is kept, too.
func newLogger(c *config.Config, w io.Writer, kept *logring.Log) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	level.Set(logLevel(c.Verbosity()))
	h := &slog.HandlerOptions{Level: level, ReplaceAttr: plainLevel}
	var handler slog.Handler = slog.NewTextHandler(w, h)
	if c.LogFormat() == "json" {
		handler = slog.NewJSONHandler(w, h)
	}
	return slog.New(kept.Handler(handler)), level
}

// tellWarnings tells what whoever wrote the configuration should know.
func tellWarnings(c *config.Config, log *slog.Logger) {
	for _, w := range c.Warnings {
		log.Warn("configuration", "warning", w)
	}
}

// logLevel is the level that a -v stands for. klog's V(n) is slog's level -n, so
// that 2 brings a line for each batch and 4 what is in it.
func logLevel(verbosity int) slog.Level { return slog.LevelInfo - slog.Level(max(verbosity, 0)) }

// plainLevel gives the levels between two that have names the name of the upper
// one, where slog would count from the lower one.
func plainLevel(groups []string, a slog.Attr) slog.Attr {
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
