package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	stdsync "sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/pathcheck"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/takeover"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/healthcheck"
	"kube-vmap/sync/follow/hold"
	"kube-vmap/sync/follow/passivehealth"
	"kube-vmap/sync/serve/health"
	"kube-vmap/sync/serve/metrics"
	"kube-vmap/sync/source/addresses"
	"kube-vmap/sync/source/cluster"
	"kube-vmap/sync/source/manifests"
	"kube-vmap/sync/throttle"
)

// proxy holds the parts of the Service proxy. Most are tasks: each does one thing until
// the context ends, and the first error ends all.
type proxy struct {
	config  *config.Config
	loop    sync.Config
	source  sync.Source
	events  *cluster.Recorder // nil without an API server
	flags   *pflag.FlagSet
	log     *slog.Logger
	level   *slog.LevelVar
	ring    *logRing // the last warnings and errors
	started time.Time

	handles  handles
	takeover *takeover.Takeover
	checks   *healthcheck.Servers
	paths    *pathChecker
	// tasks run alongside the loop. Reports add what they know to the health, and problems are about
	// objects.
	tasks    []func(context.Context) error
	reports  []func(*nodestatus.Health)
	problems []func() []sync.Problem
	// unresponsive returns what passive health checks found.
	unresponsive func(context.Context) (passivehealth.Report, error)
	waiting      func(context.Context) ([]hold.Waiting, error)
}

// handles are handles of the kernel, each of which only one goroutine may use.
type handles struct {
	shared *kernel.Kernel
	open   []*kernel.Kernel
	err    error // of those that could not be opened
}

// take opens a handle that no other part has, until run ends.
func (h *handles) take() *kernel.Kernel {
	handle, err := h.shared.Share()
	if h.err = errors.Join(h.err, err); err == nil {
		h.open = append(h.open, handle)
	}
	return handle
}

// connect creates the source of Services and the recorder of events. Neither is asked
// for anything yet. Of the API server only the addresses are looked up.
func (p *proxy) connect(ctx context.Context) error {
	if folder := p.config.Manifests; folder != "" {
		if _, err := os.Stat(folder); err != nil {
			return fmt.Errorf("--manifests: %w", err)
		}
		p.source = manifests.New(folder, p.loop.NodeName, p.log)
		return nil
	}
	if err := metrics.SetNativeHistograms(p.config.Feature(config.NativeHistograms)); err != nil {
		return err
	}
	c := &p.config.Proxy.ClientConnection
	client, err := cluster.NewClient(cluster.ClientConfig{
		ClientConnectionConfiguration: *c, Master: p.config.Master, UserAgent: "kube-vmap/" + version,
	})
	switch {
	case err != nil && c.Kubeconfig == "" && p.config.Master == "":
		return fmt.Errorf("%w; outside of a Pod, give --kubeconfig, --master or --manifests", err)
	case err != nil:
		return err
	}
	p.findAPIServer(ctx, client)
	p.source = cluster.NewSource(cluster.Config{
		Client: client, NodeName: p.loop.NodeName, NeedPodRanges: p.loop.PodsFromNode,
	}, p.log)
	p.events = cluster.NewRecorder(client, p.loop.NodeName, p.log)
	p.loop.Recorder = p.events
	return nil
}

// lookupTimeout limits the start if no name server answers.
const lookupTimeout = 5 * time.Second

// findAPIServer looks up where the API server is.
func (p *proxy) findAPIServer(ctx context.Context, client *cluster.Client) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var err error
	if p.loop.APIServer, err = client.Server(ctx); err != nil {
		p.log.Warn("address of the API server unknown", "err", err)
	}
	if slices.ContainsFunc(p.loop.APIServer, cluster.IsOwnService) {
		p.log.Warn("API server is configured as its own Service, which is not programmed after a reboot",
			"server", p.loop.APIServer)
	}
}

// run runs all tasks until ctx ends, which is no error. The rules stay.
func (p *proxy) run(ctx context.Context, k *kernel.Kernel) (err error) {
	p.handles.shared = k
	defer func() {
		for _, handle := range p.handles.open {
			err = errors.Join(err, handle.Close())
		}
	}()
	p.takeover = p.newTakeover()
	return p.runTasks(ctx, k)
}

// runTasks connects the tasks and runs them. The servers answer also when the node was returned.
func (p *proxy) runTasks(ctx context.Context, k *kernel.Kernel) error {
	endStart := limitHeap()
	m := metrics.New(metrics.Config{
		Version: version, Kubernetes: metrics.Kubernetes(), NativeHistograms: p.config.Feature(config.NativeHistograms),
	})
	h := health.New(health.Config{SyncPeriod: p.loop.SyncPeriod, Probed: m.Probed, NotReady: p.takeover.NotReady})
	p.loop.Observer = sync.MultiObserver{h, m}
	p.loop.Addresses = addresses.New(addresses.Config{Log: p.log})
	p.loop.DriftReader = p.handles.take()
	p.loop.CPUTime, p.loop.Background = throttle.ThreadCPUTime, &throttle.Budget{}
	for _, f := range p.followers(h, m) {
		p.loop.Followers, p.tasks = append(p.loop.Followers, f), append(p.tasks, f.Run)
	}
	loop := sync.NewLoop(p.loop, p.source, p.takeover.LoopKernel(ctx, k), p.log)
	m.AddTakeover(takeover.States, p.takeover.State)
	if s, ok := p.source.(*cluster.Source); ok {
		m.AddAPIAge(s.Age)
	}
	p.paths = newPathChecker(loop, p.loop.Background, p.healthPorts)
	p.tasks = append(p.tasks, p.paths.Run)
	m.AddPathChecks(pathcheck.States, p.paths.count)
	servers, err := p.servers(h, m, loop)
	if err = errors.Join(err, p.handles.err); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	yielded := make(chan struct{})
	for _, s := range servers {
		group.Go(func() error { return p.serve(ctx, s, yielded) })
	}
	group.Go(func() error {
		err := p.takeover.Start()
		if err == nil {
			err = p.follow(ctx, h, loop, endStart)
		} else {
			loop.Close()
		}
		return p.end(ctx, k, err, h, stdsync.OnceFunc(func() { close(yielded) }))
	})
	if err = group.Wait(); err == nil && h.Healthy() {
		p.takeover.Stopped() // an unhealthy process is stopped by the liveness probe
	}
	return err
}

func (p *proxy) follow(ctx context.Context, h *health.Health, loop *sync.Loop, endStart func()) error {
	group, ctx := errgroup.WithContext(ctx)
	if p.events != nil {
		p.events.Starting()
		group.Go(func() error { return p.events.Run(ctx) })
	}
	for _, run := range append(p.tasks, loop.Run) {
		group.Go(func() error { return run(ctx) })
	}
	group.Go(func() error {
		return p.takeover.Run(ctx, takeover.Proxy{Ready: loop.Ready(), Snapshot: loop.Snapshot, Healthy: h.Healthy})
	})
	group.Go(func() error { return freeWhenReady(ctx, loop.Ready(), endStart) })
	return group.Wait()
}
