package cluster

import (
	"context"
	"log/slog"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/client-go/features"
	"k8s.io/klog/v2"
)

// RouteKlog sends client-go's log lines to log, for the whole process. Lines of klog's
// verbosity n have the level -n, so that a handler that shows levels from -verbosity on
// shows as much as klog did. It must be called once, before anything else of client-go:
// klog does not guard its logger. [SetKlogVerbosity] changes the verbosity later.
func RouteKlog(log *slog.Logger, verbosity int) {
	klog.SetLoggerWithOptions(logr.FromSlogHandler(log.Handler()).V(featureGatesVerbosity-1), klog.ContextualLogger(true))
	features.FeatureGates().Enabled(features.WatchListClient) // any gate: the first use logs all
	klog.SetSlogLogger(log)
	SetKlogVerbosity(verbosity)
}

// featureGatesVerbosity is the verbosity from which client-go's list of feature gates is
// logged: a line for each, by default at V(1), when a process first uses one.
const featureGatesVerbosity = 5

// SetKlogVerbosity makes client-go log lines of verbosities up to v, for the whole
// process. It may be called at any time.
func SetKlogVerbosity(v int) {
	var level klog.Level
	// Set, meant for flags, is the only way to change it. It accepts every number.
	_ = level.Set(strconv.Itoa(v))
}

// withDebugLog returns a context with which client-go logs to log, at most at the debug
// level: [outageLog] logs what matters to users. The levels of logr do not do this,
// because they do not apply to errors.
func withDebugLog(ctx context.Context, log *slog.Logger) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(debugHandler{log.Handler()}))
}

// A debugHandler lowers the level of every line to debug.
type debugHandler struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (l debugHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return l.Handler.Enabled(ctx, min(level, slog.LevelDebug))
}

// Handle implements [slog.Handler]. It checks the level again, because klog does not
// call Enabled for errors.
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
