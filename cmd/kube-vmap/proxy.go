package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/logring"
	"kube-vmap/cmd/kube-vmap/serve"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
	"kube-vmap/sync/addresses"
	"kube-vmap/sync/cluster"
	"kube-vmap/sync/health"
	"kube-vmap/sync/manifests"
	"kube-vmap/sync/metrics"
)

// proxy is what runs as the proxy of a node, as tasks: each has one thing to do
// until the context ends, and the first that cannot ends all.
type proxy struct {
	config  *config.Config
	loop    sync.Config
	source  sync.Source
	events  *cluster.Recorder // nil if there is no API to send them to
	flags   *pflag.FlagSet
	log     *slog.Logger
	level   *slog.LevelVar
	recent  *logring.Log // the last lines of log that matter
	started time.Time
	// counting is a kernel for what is counted, asked one for who asks for it.
	counting, asked *kernel.Kernel
	answers         status.Answer // to who asks what is programmed, once there is a loop
	// otherProxy is why another proxy seems to run here; nil if none does.
	otherProxy atomic.Pointer[string]
}

// connect finds where Services come from and where events go to. Nobody is asked
// for anything yet.
func (p *proxy) connect() error {
	if folder := p.config.Manifests; folder != "" {
		if _, err := os.Stat(folder); err != nil {
			return fmt.Errorf("--manifests: %w", err)
		}
		p.source = manifests.New(folder, p.loop.NodeName, p.log)
		return nil
	}
	c := &p.config.Proxy.ClientConnection
	client, err := cluster.NewClient(cluster.ClientConfig{
		Kubeconfig: c.Kubeconfig, Master: p.config.Master,
		QPS: c.QPS, Burst: int(c.Burst),
		ContentType: c.ContentType, AcceptContentTypes: c.AcceptContentTypes,
		UserAgent: "kube-vmap/" + version,
	})
	switch {
	case err != nil && c.Kubeconfig == "" && p.config.Master == "":
		return fmt.Errorf("%w; outside of a Pod, give --kubeconfig, --master or --manifests", err)
	case err != nil:
		return err
	}
	p.source = cluster.NewSource(cluster.Config{
		Client: client, NodeName: p.loop.NodeName, NeedPodRanges: p.loop.PodsFromNode,
	}, p.log)
	p.events = cluster.NewRecorder(client, p.loop.NodeName, p.log)
	return nil
}

// run runs until ctx ends, which is no error. The rules stay.
func (p *proxy) run(ctx context.Context, k *kernel.Kernel) error {
	return beside(k, func(aside *kernel.Kernel) error {
		return beside(k, func(reader *kernel.Kernel) error {
			return beside(k, func(counting *kernel.Kernel) error {
				return beside(k, func(asked *kernel.Kernel) error {
					p.loop.DriftReader, p.counting, p.asked = reader, counting, asked
					return p.runTasks(ctx, k, aside)
				})
			})
		})
	})
}

// beside opens a kernel beside another for as long as a function runs.
func beside(k *kernel.Kernel, do func(*kernel.Kernel) error) (err error) {
	other, err := k.Share()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	return do(other)
}

// runTasks is run with a kernel for the loop, and one for what is done beside it.
func (p *proxy) runTasks(ctx context.Context, k, aside *kernel.Kernel) error {
	m := metrics.New(metrics.Config{Version: version, Kubernetes: metrics.Kubernetes()})
	h := health.New(health.Config{SyncPeriod: p.config.SyncPeriod(), Probed: m.Probed})
	p.loop.Observer = sync.MultiObserver{h, m}
	p.loop.Addresses = addresses.New(addresses.Config{Log: p.log})
	if p.events != nil {
		p.loop.Recorder = p.events
	}
	followers := p.followers(aside, h, m)
	for _, f := range followers {
		p.loop.Followers = append(p.loop.Followers, f)
	}
	loop := sync.NewLoop(p.loop, p.source, k, p.log)
	servers, err := p.servers(h, m, loop)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if p.events != nil {
		p.events.Starting()
		group.Go(func() error { return p.events.Run(ctx) })
	}
	for _, f := range followers {
		group.Go(func() error { return f.Run(ctx) })
	}
	group.Go(func() error { return loop.Run(ctx) })
	group.Go(func() error { return p.onceReady(ctx, loop.Ready()) })
	group.Go(func() error { return p.config.Watch(ctx, p.log) })
	for _, s := range servers {
		group.Go(func() error { return p.serve(ctx, s) })
	}
	err = group.Wait()
	p.log.Info("stopped; the rules stay")
	return err
}

// servers are those of health, metrics and status.
func (p *proxy) servers(h *health.Health, m *metrics.Metrics, loop *sync.Loop) ([]*serve.Server, error) {
	handler, err := serve.Metrics(serve.MetricsConfig{
		Log: p.log, Version: version, Kubernetes: metrics.Kubernetes(), Started: p.started,
		Metrics: m.Gatherer(), SLIs: m.SLIs(), Pinged: m.Pinged, Status: p.statusPage(loop),
		Object: &p.config.Proxy, Flags: p.flags,
		Flagz: p.config.Feature("ComponentFlagz"), Statusz: p.config.Feature("ComponentStatusz"),
		Profiling: p.config.Proxy.EnableProfiling, SetVerbosity: p.setVerbosity,
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
		p.statusServer(loop, m.Gatherer()),
	}, nil
}

// setVerbosity does what another -v would have done.
func (p *proxy) setVerbosity(v int) {
	p.level.Set(logLevel(v))
	cluster.SetKlogVerbosity(v)
}

// serve runs a server. That it ends the process is told where people look.
func (p *proxy) serve(ctx context.Context, s *serve.Server) error {
	err := s.Run(ctx)
	if err == nil || p.events == nil {
		return err
	}
	reason := cluster.ReasonHealthServer
	if s.Name == "metrics" {
		reason = cluster.ReasonMetricsServer
	}
	// The other tasks end now, and ctx with them; the event still has some time.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if e := p.events.FailedToStart(last, reason, err.Error()); e != nil {
		p.log.Warn("no event of the end", "err", e)
	}
	return err
}

// lastWords is how long a process that ends may take to say why.
const lastWords = 2 * time.Second

// onceReady does what waits until our own rules stand.
func (p *proxy) onceReady(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-ready:
	}
	// Of what reading the whole cluster took, a third is not needed again.
	debug.FreeOSMemory()
	return p.takeOver(ctx)
}
