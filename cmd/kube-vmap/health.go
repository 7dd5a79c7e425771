package main

import (
	"context"
	"fmt"
	"io"
	stdsync "sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/cmd/inspect/diff"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/kube-vmap/serve"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/serve/health"
	"kube-vmap/sync/serve/metrics"
	"kube-vmap/sync/source/cluster"
)

// healthReport returns a function that collects the health of this process from its parts.
// It waits at most [maxRuleset] for the loop, which may wait for the kernel.
func (p *proxy) healthReport(l *sync.Loop, h *health.Health) func(context.Context) (*nodestatus.Health, error) {
	var mu stdsync.Mutex // guards kernel
	kernel := p.handles.take()
	return func(ctx context.Context) (*nodestatus.Health, error) {
		loop := h.Loop()
		out := &nodestatus.Health{
			Started: p.started, Source: p.config.Source(),
			Sync: nodestatus.Sync{
				Last: loop.Synced, FailingSince: loop.FailingSince, Error: errorText(loop.Err),
				PendingSince: loop.PendingSince, Overdue: loop.Overdue,
			},
			Refused: nodestatus.Refused{Ports: loop.QuarantinedPorts, Objects: loop.InvalidObjects, Conflicts: loop.Conflicts},
			Repairs: nodestatus.Count{Count: loop.Repairs, Last: loop.Repaired},
			Protect: p.loop.Rules.Protect, Network: networkState(),
		}
		add := func(reason, format string, args ...any) {
			out.Problems = append(out.Problems, nodestatus.Problem{
				Object: "Node " + p.loop.NodeName, Reason: reason, Text: fmt.Sprintf(format, args...),
			})
		}
		for _, n := range loop.NodeProblems {
			add(n.Reason, "%s", n.Text)
		}
		for _, add := range p.reports {
			add(out)
		}
		if f := l.ReadFailure(); f != nil {
			out.Sync.UnreadSince, out.Sync.Unread = f.Since, f.Err.Error()
		}
		out.Warnings = p.ring.warnings.summary()
		if out.Takeover.State = p.takeover.State(); out.Takeover.State != nodestatus.TakeoverReturned {
			out.Positions = positions(p.source)
		}
		for _, problem := range p.takeover.Problems() {
			out.Takeover.Text = problem.Text
		}
		mu.Lock()
		defer mu.Unlock()
		headers, err := kernel.ReadHeaders()
		if err != nil {
			return out, fmt.Errorf("read the tables: %w", err)
		}
		out.Tables = tableStates(headers)
		return out, p.paths.addNetwork(ctx, add)
	}
}

// positions returns how far a source has followed the API server; nil for manifests.
func positions(source any) (out []nodestatus.Position) {
	s, ok := source.(*cluster.Source)
	if !ok {
		return nil
	}
	for _, p := range s.Positions() {
		out = append(out, nodestatus.Position{
			Kind: p.Kind, ResourceVersion: p.ResourceVersion, FailingSince: p.FailingSince, Error: errorText(p.Err),
		})
	}
	return out
}

func tableStates(t nft.Tables) (out []nodestatus.Table) {
	for _, f := range model.Families {
		state := nodestatus.TableOpen
		switch {
		case t[f] == nil:
			state = nodestatus.TableMissing
		case t[f].Foreign:
			state = nodestatus.TableForeign
		case t[f].Dormant:
			state = nodestatus.TableDormant
		case t[f].Owner != 0:
			state = nodestatus.TableOwned
		}
		out = append(out, nodestatus.Table{Family: f.String(), State: state})
	}
	return out
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// statusAnswer returns the source of status documents, one for the socket and the page,
// since it caches what it reads from the kernel.
func (p *proxy) statusAnswer(loop *sync.Loop, h *health.Health) nodestatus.Source {
	counts := build.Counts{Active: build.ActiveCounts(conntrack.New(conntrack.Config{}))}
	if p.config.CountConnections {
		counts.Total = build.TotalCounts(p.handles.take())
	}
	look := func(ctx context.Context) (sync.Snapshot, error) {
		var v sync.Snapshot
		var err error
		if p.takeover.State() == nodestatus.TakeoverReturned { // the loop has ended
			v.Node.Name, v.KernelKnown = p.loop.NodeName, true
		} else if v, err = loop.Snapshot(ctx); err != nil {
			return v, err
		}
		for _, problems := range p.problems {
			v.Problems = append(v.Problems, problems()...)
		}
		return v, nil
	}
	return build.New(build.Config{
		Snapshot: look, Version: version, Counts: counts, NodeName: p.loop.NodeName, Health: p.healthReport(loop, h),
		Observe: build.ObserveNode, Unresponsive: p.unresponsive, Waiting: p.waiting,
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
