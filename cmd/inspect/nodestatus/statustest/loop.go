package statustest

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"kube-vmap/sync"
)

// Events is a source that sends all its events at the start.
type Events []sync.Event

// Run implements [sync.Source].
func (e Events) Run(ctx context.Context, out chan<- []sync.Event) error {
	out <- e
	<-ctx.Done()
	return ctx.Err()
}

// Snapshot runs a loop on a kernel with these events, and returns its snapshot when it is ready and
// a function has run, which may be nil.
func Snapshot(t *testing.T, c sync.Config, k sync.Kernel, events []sync.Event, ready func()) sync.Snapshot {
	t.Helper()
	l := sync.NewLoop(c, Events(events), k, slog.New(slog.DiscardHandler))
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	<-l.Ready()
	if ready != nil {
		ready()
	}
	v, err := l.Snapshot(t.Context())
	end()
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	return v
}
