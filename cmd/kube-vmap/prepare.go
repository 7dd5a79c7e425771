package main

import (
	"fmt"

	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/nft/kernel"
)

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
