package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
)

// start does what the flags ask for.
func start(ctx context.Context, cmd *cobra.Command, flags *config.Flags) error {
	started := time.Now()
	c, err := flags.Config()
	if err != nil {
		return err
	}
	log, level := newLogger(c, cmd.ErrOrStderr())
	switch {
	case c.WriteConfigTo != "":
		return writeConfig(c, log)
	case c.Cleanup:
		return cleanup()
	}
	p := &proxy{config: c, flags: cmd.Flags(), log: log, level: level, started: started}
	if p.loop, err = loopConfig(c); err != nil {
		return err
	}
	if c.InitOnly {
		return withKernel(p.prepare)
	}
	// What is wrong with the source is told before anything is done.
	if err := p.connect(); err != nil {
		return err
	}
	return withKernel(func(k *kernel.Kernel) error {
		if err := p.prepare(k); err != nil {
			return err
		}
		return p.run(ctx, k)
	})
}

// withKernel opens the kernel for as long as a function runs.
func withKernel(do func(*kernel.Kernel) error) (err error) {
	k, err := kernel.Open(kernel.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return do(k)
}

// writeConfig writes the configuration as a file.
func writeConfig(c *config.Config, log *slog.Logger) (err error) {
	f, err := os.Create(c.WriteConfigTo)
	if err != nil {
		return fmt.Errorf("--write-config-to: %w", err)
	}
	tellWarnings(c, log)
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := c.Write(f); err != nil {
		return err
	}
	log.Info("wrote the configuration", "file", c.WriteConfigTo)
	return nil
}

// cleanup removes our tables, if there are any. It does not look first, so that
// nothing that somebody did to them can keep them.
func cleanup() error {
	return withKernel(func(k *kernel.Kernel) (err error) {
		for _, f := range model.Families {
			_, e := k.Apply(nft.Batch{nft.DeleteTable{Family: f}})
			if !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
		return err
	})
}

// loopConfig is what the configuration says to the loop.
func loopConfig(c *config.Config) (sync.Config, error) {
	name, err := c.NodeName()
	out := sync.Config{
		NodeName:      name,
		MasqueradeAll: c.MasqueradeAll(),
		Rules:         nft.Config{MasqueradeMark: c.MasqueradeMark(), Pods: c.ClusterCIDRs()},
		MinSyncPeriod: c.MinSyncPeriod(),
	}
	switch c.Proxy.DetectLocalMode {
	case config.LocalModeNodeCIDR:
		out.PodsFromNode = true
	case config.LocalModeBridgeInterface:
		out.Rules.PodInterface = nft.Interface{Name: c.Proxy.DetectLocal.BridgeInterface}
	case config.LocalModeInterfaceNamePrefix:
		out.Rules.PodInterface = nft.Interface{Name: c.Proxy.DetectLocal.InterfaceNamePrefix, Prefix: true}
	}
	return out, err
}
