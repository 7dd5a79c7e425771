package build_test

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

// then is the time of all documents.
var then = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// config is the configuration of all loops.
var config = sync.Config{
	NodeName: "worker-1",
	Rules: nft.Config{
		MasqueradeMark: nft.DefaultMasqueradeMark,
		Pods: [...]netip.Prefix{
			model.IPv4: netip.MustParsePrefix("10.244.0.0/16"), model.IPv6: netip.MustParsePrefix("fd00:10:244::/56"),
		},
	},
}

// eventSource is a source that sends all its events at the start.
type eventSource []sync.Event

func (e eventSource) Run(ctx context.Context, out chan<- []sync.Event) error {
	out <- e
	<-ctx.Done()
	return ctx.Err()
}

// loop runs a loop on a kernel with these events, and returns its snapshot when it is
// ready.
func loop(t *testing.T, c sync.Config, k sync.Kernel, events []sync.Event) sync.Snapshot {
	t.Helper()
	l := sync.NewLoop(c, eventSource(events), k, slog.New(slog.DiscardHandler))
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	<-l.Ready()
	v, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return v
}

// both returns the documents of a loop and of its kernel.
func both(t *testing.T, events []sync.Event) (daemon, kernel *nodestatus.Document) {
	t.Helper()
	k := kerneltest.New()
	v := loop(t, config, k, events)
	tables, err := k.Read()
	if err != nil {
		t.Fatal(err)
	}
	return build.FromSnapshot(&v, nodestatus.Query{}, then), build.FromTables(tables, nodestatus.Query{}, then)
}

func newKernel() sync.Kernel { return kerneltest.New() }
