package main

import (
	"context"
	"time"

	"kube-vmap/cmd/kube-vmap/serve"
	"kube-vmap/sync"
	"kube-vmap/sync/serve/health"
	"kube-vmap/sync/serve/metrics"
	"kube-vmap/sync/source/cluster"
)

func (p *proxy) servers(h *health.Health, m *metrics.Metrics, loop *sync.Loop) ([]*serve.Server,
	error,
) {
	answer := p.statusAnswer(loop, h)
	handler, err := serve.Metrics(serve.MetricsConfig{
		Log: p.log, Version: version, Kubernetes: metrics.Kubernetes(), Started: p.started,
		Metrics: m.Gatherer(), SLIs: m.SLIs(), Pinged: m.Pinged,
		Object: &p.config.Proxy, Flags: p.flags,
		Flagz: p.config.Feature("ComponentFlagz"), Statusz: p.config.Feature("ComponentStatusz"),
		Profiling: p.config.Proxy.EnableProfiling,
		SetVerbosity: func(v int) {
			p.level.Set(logLevel(v))
			cluster.SetKlogVerbosity(v)
		},
	})
	if err != nil {
		return nil, err
	}
	hard := p.config.Proxy.BindAddressHardFail
	return []*serve.Server{
		serve.New(serve.Config{
			Name: "health", Address: p.config.Proxy.HealthzBindAddress, HardFail: hard, Handler: h.Handler(), Log: p.log,
		}),
		serve.New(serve.Config{
			Name: "metrics", Address: p.config.Proxy.MetricsBindAddress, HardFail: hard, Handler: handler, Log: p.log,
		}),
		p.statusServer(loop, answer, m.Gatherer()),
	}, nil
}

// failureEventTimeout is how long the event about the error that ends the process may take.
const failureEventTimeout = 2 * time.Second

// yieldPause is how long a port is left to kube-proxy, which tries every 5 seconds.
const yieldPause = 15 * time.Second

// serve runs a server, with a pause of one with a port when that is yielded to kube-proxy. After it
// the port is left to kube-proxy if that has it. If an error ends the process, an event reports that.
func (p *proxy) serve(ctx context.Context, s *serve.Server, yielded <-chan struct{}) error {
	if s.Network == "unix" {
		return s.Run(ctx)
	}
	first, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-yielded:
		case <-first.Done():
		}
		cancel()
	}()
	err := s.Run(first)
	if err == nil && ctx.Err() == nil {
		sync.Sleep(ctx, yieldPause)
		s.HardFail = true // the port must be free when kube-proxy starts again
		if err := s.Run(ctx); err != nil {
			p.log.Warn("port left to kube-proxy", "server", s.String(), "err", err)
		}
		return nil
	}
	if err == nil {
		return nil
	}
	reason := cluster.ReasonHealthServer
	if s.Name == "metrics" {
		reason = cluster.ReasonMetricsServer
	}
	p.reportFailure(ctx, reason, err.Error())
	return err
}
