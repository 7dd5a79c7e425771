package cluster

import (
	"context"
	"log/slog"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/client-go/features"
	"k8s.io/klog/v2"
)

// RouteKlog sends what client-go logs to log, for the whole process. A line of
// klog's verbosity n comes at the level -n, so that a handler that shows levels
// from -verbosity on shows as much as klog did. It must be called once, before
// anything else of client-go is: klog does not guard its logger. To change the
// verbosity later, there is [SetKlogVerbosity].
func RouteKlog(log *slog.Logger, verbosity int) {
	klog.SetLoggerWithOptions(logr.FromSlogHandler(log.Handler()).V(featureGatesVerbosity-1), klog.ContextualLogger(true))
	features.FeatureGates().Enabled(features.WatchListClient) // any will do
	klog.SetSlogLogger(log)
	SetKlogVerbosity(verbosity)
}

// featureGatesVerbosity is the verbosity from which client-go's list of feature gates is
// logged. That has a line for each gate, at V(1), when the process first asks for one.
const featureGatesVerbosity = 5

// SetKlogVerbosity makes client-go log lines of verbosities up to v, for the whole
// process. It may be called at any time.
func SetKlogVerbosity(v int) {
	var level klog.Level
	// Set is the one way to klog's verbosity but for its flags; a number is never
	// refused.
	_ = level.Set(strconv.Itoa(v))
}

// withDebugLog makes client-go log its own lines to log, but none above the level of
// debug: of what concerns anybody, [outageLog] tells.
func withDebugLog(ctx context.Context, log *slog.Logger) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(debugHandler{log.Handler()}))
}

// debugHandler is a handler that takes every line for one of debug at most.
type debugHandler struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (l debugHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return l.Handler.Enabled(ctx, min(level, slog.LevelDebug))
}

// Handle implements [slog.Handler]. Whoever logs an error may not have asked
// whether that level is wanted.
func (l debugHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = min(r.Level, slog.LevelDebug)
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (l debugHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugHandler{l.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (l debugHandler) WithGroup(name string) slog.Handler {
	return debugHandler{l.Handler.WithGroup(name)}
}
