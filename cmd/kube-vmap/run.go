package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync/cluster"
)

// runProxy does what the flags ask for: it makes the configuration, connects the parts
// of the proxy, prepares the node, and runs the parts until ctx ends.
func runProxy(ctx context.Context, cmd *cobra.Command, flags *config.Flags) error {
	started := time.Now()
	c, err := flags.Config()
	if err != nil {
		return err
	}
	ring := &logRing{}
	log, level := newLogger(c, cmd.ErrOrStderr(), ring)
	if c.Cleanup {
		return cleanup(ctx, log, false)
	}
	cluster.RouteKlog(log, c.Verbosity())
	logWarnings(c, log)
	if c.WriteConfigTo != "" {
		return writeConfig(c, log)
	}
	p := &proxy{config: c, flags: cmd.Flags(), log: log, level: level, ring: ring, started: started}
	if p.loop, err = c.Loop(); err != nil {
		return err
	}
	if err := p.start(ctx); err != nil && c.LogFormat() == "json" {
		log.Error("kube-vmap ends", "err", err)
		return &exit.Error{Code: exit.Code(err), Err: errLogged}
	} else if err != nil {
		return err
	}
	return nil
}

// errLogged is an error that is in the log already.
var errLogged = errors.New("see the log")

// start runs the proxy, or with --init-only prepares the node for it.
func (p *proxy) start(ctx context.Context) error {
	if p.config.InitOnly {
		return node.WithKernel(p.prepare)
	}
	if err := p.connect(); err != nil { // before anything is changed
		return err
	}
	return node.WithKernel(func(k *kernel.Kernel) error {
		if err := p.prepare(k); err != nil {
			return err
		}
		return p.run(ctx, k)
	})
}

func writeConfig(c *config.Config, log *slog.Logger) (err error) {
	f, err := os.Create(c.WriteConfigTo)
	if err != nil {
		return fmt.Errorf("--write-config-to: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := c.Write(f); err != nil {
		return err
	}
	log.Info("configuration written", "file", c.WriteConfigTo)
	return nil
}
