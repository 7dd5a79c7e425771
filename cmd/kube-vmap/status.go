package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kube-vmap/serve"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
)

// answer is what answers questions about what is programmed, the same for all who
// ask: what it has read of the kernel is good for a second, or longer where there is
// much to read.
func (p *proxy) answer(loop *sync.Loop) status.Answer {
	if p.answers != nil {
		return p.answers
	}
	counts := status.Counts{Active: status.Active(conntrack.New(conntrack.Config{}))}
	if p.config.CountConnections() {
		counts.Counted = status.Counted(p.asked)
	}
	p.answers = status.New(status.Config{Look: p.lookAt(loop), Version: version, Counts: counts})
	return p.answers
}

// lookAt returns a function that returns what the loop knows, and whether another
// proxy seems to run.
func (p *proxy) lookAt(loop *sync.Loop) func(context.Context) (sync.Snapshot, error) {
	return func(ctx context.Context) (sync.Snapshot, error) {
		v, err := loop.Snapshot(ctx)
		if other := p.otherProxy.Load(); other != nil {
			v.Problems = append(v.Problems, sync.Problem{Object: p.node(), Reason: reasonOtherProxy, Text: otherProxyRuns + ": " + *other})
		}
		return v, err
	}
}

// statusServer is what the commands ask that tell about a running process.
func (p *proxy) statusServer(loop *sync.Loop, metrics prometheus.Gatherer) *serve.Server {
	s, mux := serve.NewStatus(serve.StatusConfig{Socket: p.config.StatusSocket(), Answer: p.answer(loop), Log: p.log})
	p.inspected(mux, loop, metrics)
	return s
}
