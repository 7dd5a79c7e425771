package shadow

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"kube-vmap/sync"
)

// A silentSource has no objects, as an API server that does not respond.
type silentSource struct{ started func() }

func (s silentSource) Run(ctx context.Context, _ chan<- []sync.Event) error {
	s.started()
	<-ctx.Done()
	return ctx.Err()
}

func TestOnceIsInterruptedBeforeTheObjectsAreLoaded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := New(Config{Source: silentSource{cancel}, Log: slog.New(slog.DiscardHandler)})
	if r, err := s.Once(ctx, false); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", r, err)
	}
}
