package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/logring"
	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
	"kube-vmap/sync/cluster"
)

// start does what the flags ask for.
func start(ctx context.Context, cmd *cobra.Command, flags *config.Flags) error {
	started := time.Now()
	c, err := flags.Config()
	if err != nil {
		return err
	}
	kept := &logring.Log{}
	log, level := newLogger(c, cmd.ErrOrStderr(), kept)
	if c.Cleanup {
		return cleanup(log)
	}
	cluster.RouteKlog(log, c.Verbosity())
	tellWarnings(c, log)
	if c.WriteConfigTo != "" {
		return writeConfig(c, log)
	}
	p := &proxy{config: c, flags: cmd.Flags(), log: log, level: level, recent: kept, started: started}
	if p.loop, err = loopConfig(c); err != nil {
		return err
	}
	if err := p.work(ctx); err != nil && c.LogFormat() == "json" {
		log.Error("kube-vmap ends", "err", err)
		return errTold
	} else if err != nil {
		return err
	}
	return nil
}

// errTold is an error that the log has already.
var errTold = errors.New("see the log")

// work does what a proxy does, or what --init-only leaves of it.
func (p *proxy) work(ctx context.Context) error {
	if p.config.InitOnly {
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
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := c.Write(f); err != nil {
		return err
	}
	log.Info("wrote the configuration", "file", c.WriteConfigTo)
	return nil
}

// cleanup removes our tables, if there are any, and logs which. It does not look first,
// so that nothing that somebody did to them can keep them.
func cleanup(log *slog.Logger) error {
	return withKernel(func(k *kernel.Kernel) (err error) {
		var removed []string
		for _, f := range model.Families {
			_, e := k.Apply(nft.Batch{nft.DeleteTable{Family: f}})
			switch {
			case e == nil:
				removed = append(removed, nft.FamilyName(f)+" "+nft.TableName)
			case errors.Is(e, fs.ErrPermission):
				// So it will be with the next one. It may be that the tables belong to
				// somebody.
				have, _ := k.Read()
				return cmp.Or(have.Writable(), e)
			case !errors.Is(e, fs.ErrNotExist):
				err = errors.Join(err, e)
			}
		}
		switch {
		case len(removed) > 0:
			log.Info("tables removed", "tables", removed)
		case err == nil:
			log.Info("nothing to remove: this network namespace has no table of kube-vmap")
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
		SyncPeriod:    c.SyncPeriod(),
		MinSyncPeriod: c.MinSyncPeriod(),

		NodePorts:          c.NodePorts(),
		NodeIPs:            c.NodeIPs(),
		Scheduler:          c.Scheduler(),
		StrictSourceRanges: c.StrictSourceRanges(),
		IgnoreExternalIPs:  !c.ServesExternalIPs(),
		EndTCP:             c.EndTCPFlows(),
	}
	out.Rules.Protect = c.ProtectTables() // if the kernel can, see prepare
	out.Rules.CountConnections = c.CountConnections()
	out.Rules.DropInvalid = c.DropInvalid(node.DistrustsOldData())
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
