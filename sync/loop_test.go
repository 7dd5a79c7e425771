package sync_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

// sourceFunc is a function as a source.
type sourceFunc func(ctx context.Context, out chan<- []sync.Event) error

// Run calls the function.
func (f sourceFunc) Run(ctx context.Context, out chan<- []sync.Event) error { return f(ctx, out) }

// newLoop makes a loop of that source on a fake kernel.
func newLoop(f sourceFunc) *sync.Loop {
	return sync.NewLoop(sync.Config{NodeName: "node-1"}, f, kerneltest.New(), slog.New(slog.DiscardHandler))
}

func TestABusySourceDoesNotKeepTheKernelWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var loop *sync.Loop
	loop = newLoop(func(ctx context.Context, out chan<- []sync.Event) error {
		for ctx.Err() == nil {
			select {
			case out <- nil: // always has something to say, even if it is nothing
			case <-loop.Ready():
				cancel()
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	})
	if err := loop.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestASourceThatFailsEndsTheLoop(t *testing.T) {
	for _, failure := range []error{
		errors.New("no list"),
		fmt.Errorf("list of its own: %w", context.Canceled), // somebody else's context
	} {
		loop := newLoop(func(context.Context, chan<- []sync.Event) error { return failure })
		if err := loop.Run(t.Context()); !errors.Is(err, failure) {
			t.Errorf("the source ended with %v, the loop with %v", failure, err)
		}
	}
}

func TestALoopIsReadyOnlyAfterTheFirstBurst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	loop := newLoop(func(ctx context.Context, _ chan<- []sync.Event) error {
		cancel()
		<-ctx.Done()
		return nil
	})
	if err := loop.Run(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-loop.Ready():
		t.Error("the loop is ready without having been told anything")
	default:
	}
}
