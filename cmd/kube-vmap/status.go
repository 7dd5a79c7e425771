package main

import (
	"context"
	"io"

	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/cmd/inspect/diff"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/kube-vmap/serve"
	"kube-vmap/cmd/kube-vmap/takeover"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/health"
)

// statusAnswer returns the source of status documents, one for the socket and the page,
// since it caches what it reads from the kernel.
func (p *proxy) statusAnswer(loop *sync.Loop, h *health.Health) nodestatus.Source {
	counts := build.Counts{Active: build.ActiveCounts(conntrack.New(conntrack.Config{}))}
	if p.config.CountConnections {
		counts.Total = build.TotalCounts(p.kernels.status)
	}
	look := func(ctx context.Context) (sync.Snapshot, error) {
		var v sync.Snapshot
		var err error
		if p.takeover.State() == takeover.StateReturned { // the loop has ended
			v.Node.Name, v.KernelKnown = p.loop.NodeName, true
		} else if v, err = loop.Snapshot(ctx); err != nil {
			return v, err
		}
		v.Problems = append(v.Problems, p.takeover.Problems()...)
		return v, nil
	}
	return build.New(build.Config{
		Snapshot: look, Version: version, Counts: counts, NodeName: p.loop.NodeName, Health: p.healthReport(h),
		Observe: build.ObserveNode, Unresponsive: p.unresponsive,
	})
}

func (p *proxy) statusServer(loop *sync.Loop, answer nodestatus.Source, metrics prometheus.Gatherer) *serve.Server {
	return serve.NewStatus(serve.StatusConfig{
		Socket: p.config.StatusSocket, Answer: answer, Metrics: metrics, Log: p.log,
		Texts: map[string]serve.Text{
			client.PathRules:  func(ctx context.Context, w io.Writer) error { return diff.WriteRules(ctx, loop, w) },
			client.PathKernel: func(ctx context.Context, w io.Writer) error { return diff.WriteKernel(ctx, loop, w) },
			client.PathDrift:  func(ctx context.Context, w io.Writer) error { return diff.WriteDrift(ctx, loop, w) },
			client.PathConfig: func(_ context.Context, w io.Writer) error { return p.config.Write(w) },
			client.PathRecent: func(_ context.Context, w io.Writer) error {
				_, err := io.WriteString(w, p.ring.warnings.text())
				return err
			},
			client.PathInfo: func(_ context.Context, w io.Writer) error {
				_, err := io.WriteString(w, p.ring.all.text())
				return err
			},
		},
	})
}
