package sync_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

// slowKernel needs a minute for each batch.
type slowKernel struct{ *kerneltest.Kernel }

func (k slowKernel) Apply(b nft.Batch) (nft.Applied, error) {
	<-time.After(time.Minute) // no real time: see package synctest
	return k.Kernel.Apply(b)
}

func TestSnapshotWaitsForTheKernelUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nothing := sourceFunc(func(ctx context.Context, out chan<- []sync.Event) error {
			out <- nil
			<-ctx.Done()
			return ctx.Err()
		})
		l := sync.NewLoop(sync.Config{NodeName: "node-1"}, nothing, slowKernel{kerneltest.New()}, slog.New(slog.DiscardHandler))
		before, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Snapshot(before); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of a loop that does not run: %v", err)
		}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		<-time.After(time.Second)
		during, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := l.Snapshot(during); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the kernel works: %v", err)
		}
		v, err := l.Snapshot(t.Context())
		if err != nil || !v.Ready || !v.KernelKnown || v.Node.Name != "node-1" {
			t.Errorf("without a deadline: %+v, %v", v, err)
		}
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := l.Snapshot(t.Context()); err == nil {
			t.Error("a loop that has ended returned a snapshot")
		}
	})
}
