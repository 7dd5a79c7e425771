package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync/source/cluster"
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
	for _, w := range c.Warnings {
		log.Warn("configuration", "warning", w)
	}
	if c.WriteConfigTo != "" {
		return writeConfig(c, log)
	}
	if err := c.CheckPorts(); err != nil {
		return err
	}
	p := &proxy{config: c, flags: cmd.Flags(), log: log, level: level, ring: ring, started: started}
	if p.loop, err = c.Loop(); err != nil {
		return err
	}
	if err = p.start(ctx); err != nil && c.Proxy.Logging.Format == "json" {
		log.Error("kube-vmap ends", "err", err)
		return &exit.Error{Code: exit.Code(err)} // the log has it
	}
	return err
}

// start runs the proxy, or with --init-only prepares the node for it.
func (p *proxy) start(ctx context.Context) error {
	if p.config.InitOnly {
		return node.WithKernel(p.prepare)
	}
	if err := p.connect(ctx); err != nil { // before anything is changed
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

// prepare does what a node needs once: it checks that the kernel supports the rules, which also
// loads its modules, and applies the settings of connection tracking and of this process.
func (p *proxy) prepare(k *kernel.Kernel) error {
	if err := p.probe(k); err != nil {
		return err
	}
	if release, old := node.TooOld(); old {
		p.log.Warn("kernel is older than supported; source ranges may let other clients in", "release", release, "oldest",
			node.Oldest)
	}
	p.log.Info("starting", "version", version, "node", p.loop.NodeName, "source", p.config.Source(),
		"protected", p.loop.Rules.Protect, "labels", !p.loop.Rules.NoLabels)
	err := node.SetConntrack(&p.config.Proxy.Conntrack, !p.config.InitOnly, p.log)
	if err != nil {
		return fmt.Errorf("set up connection tracking: %w", err)
	}
	if p.config.InitOnly {
		return nil
	}
	if err := node.SetOOMScoreAdj(int(*p.config.Proxy.OOMScoreAdj)); err != nil {
		p.log.Warn("the kernel may kill this process when memory is short", "err", err)
	}
	return nil
}

// probe checks that the kernel supports the rules, without what they can do without. A
// kernel that supports everything is asked once: each answer takes it about 10 ms.
func (p *proxy) probe(k *kernel.Kernel) error {
	if k.Probe(p.loop.Rules) == nil {
		return nil
	}
	if err := node.DropUnsupported(k, &p.loop.Rules); err != nil {
		return err
	}
	return k.Probe(p.loop.Rules)
}

// Garbage collection during the start, which allocates much and keeps little.
const (
	// firstCollection is the size of the heap at which Go collects garbage for the first time:
	// reading a large cluster takes more in any case, and eight earlier collections, each of
	// all that was read so far, would take a tenth of the CPU of a start.
	firstCollection = 32 << 20
	// startPercent is by how much the heap then grows from one collection to the next, as
	// GOGC. It is less than the usual 100, because the peak during the start decides how much
	// memory the process needs.
	startPercent = 50
)

// limitHeap sets how the heap grows during the start. The function that it returns ends that.
// It does nothing if GOGC is not 100.
func limitHeap() (end func()) {
	const smallest = 4 << 20 // heap at which Go collects first, if GOGC is 100
	before := debug.SetGCPercent(firstCollection / smallest * 100)
	if before != 100 {
		debug.SetGCPercent(before)
		return func() {}
	}
	var once sync.Once
	collected := func() { once.Do(func() { debug.SetGCPercent(startPercent) }) }
	runtime.AddCleanup(new([16]*byte), func(f func()) { f() }, collected)
	return func() {
		once.Do(func() {})
		debug.SetGCPercent(before)
	}
}

// freeWhenReady waits until our rules are installed, calls end, and returns memory.
func freeWhenReady(ctx context.Context, ready <-chan struct{}, end func()) error {
	select {
	case <-ctx.Done():
		return nil
	case <-ready:
	}
	end()
	debug.FreeOSMemory() // a third of what reading the whole cluster took is not needed again
	return nil
}
