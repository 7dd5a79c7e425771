package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/diff"
	"kube-vmap/cmd/inspect/shadow"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/serve"
	"kube-vmap/sync/cluster"
)

// runShadow compares once, or until ctx ends.
func runShadow(ctx context.Context, flags *config.Flags, o shadow.Options, stdout, stderr io.Writer) error {
	if o.Output != "table" && o.Output != "json" {
		return fmt.Errorf("--output: %q is neither table nor json", o.Output)
	}
	c, err := diff.ReadOnlyConfig(flags)
	if err != nil {
		return err
	}
	log, level := newLogger(c, stderr, &logRing{})
	if o.Once && c.Verbosity() == 0 {
		level.Set(slog.LevelWarn)
	}
	cluster.RouteKlog(log, c.Verbosity())
	p := &proxy{config: c, log: log}
	if p.loop, err = c.Loop(); err != nil {
		return err
	}
	if err := p.connect(); err != nil {
		return err
	}
	s := shadow.New(shadow.Config{
		Loop: p.loop, Source: p.source, NodePortsDefault: c.NodePorts().Primary, Period: o.Period, Timeout: o.Timeout,
		Log: log,
	})
	if o.Once {
		r, err := s.Once(ctx, o.All)
		if err != nil {
			return err
		}
		return r.Print(stdout, o.Output)
	}
	monitor := shadow.NewMonitor(log)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Run(ctx, monitor.OnRound) })
	server := serve.New(serve.Config{Name: "shadow", Address: o.ServeAddress, Handler: monitor.Handler(), Log: log})
	group.Go(func() error { return server.Run(ctx) })
	return group.Wait()
}
