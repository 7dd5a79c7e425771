package sync_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
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

// BenchmarkSnapshot measures what a snapshot costs the loop's goroutine, with 45,000
// Services of three endpoints each.
func BenchmarkSnapshot(b *testing.B) {
	const many = 45_000
	events := make([]sync.Event, 0, 2*many)
	for i := range many {
		name := fmt.Sprint("web-", i)
		s := model.Service{
			Name: model.ServiceName{Namespace: "shop", Name: name}, ClusterIPs: []netip.Addr{addressOf(96, i)},
			Ports: []model.ServicePort{{Protocol: model.TCP, Port: 80}},
		}
		slice := model.EndpointSlice{
			Name: model.EndpointSliceName{Namespace: "shop", Name: name}, Service: s.Name,
			Ports: []model.EndpointPort{{Protocol: model.TCP, Port: 8080}},
		}
		for k := range 3 {
			slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: addressOf(244+k, i), Ready: true, Serving: true})
		}
		events = append(events, sync.SetService{Service: s}, sync.SetSlice{Slice: slice})
	}
	l := newLoop(func(ctx context.Context, out chan<- []sync.Event) error {
		out <- events
		<-ctx.Done()
		return ctx.Err()
	})
	go func() { _ = l.Run(b.Context()) }()
	<-l.Ready()
	b.ReportAllocs()
	for b.Loop() {
		if v, err := l.Snapshot(b.Context()); err != nil || len(v.Installed) != many || len(v.Services) != many {
			b.Fatal(err)
		}
	}
}

// addressOf returns address n of 10.net.0.0/16.
func addressOf(net, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(net), byte(n >> 8), byte(n)})
}
