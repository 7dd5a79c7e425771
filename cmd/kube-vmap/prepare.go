package main

import (
	"fmt"

	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// prepare does what a node needs once: it makes sure that the kernel can do all
// that the rules take, which also loads what it has as modules, and sets what
// the configuration says of connection tracking and of this process.
func (p *proxy) prepare(k *kernel.Kernel) error {
	// First, since what follows tries all that the rules are to be.
	if err := ifAble(k, &p.loop.Rules); err != nil {
		return err
	}
	if err := k.Probe(p.loop.Rules); err != nil {
		return err
	}
	if release, old := node.TooOld(); old {
		p.log.Warn("this kernel is older than what the rules are made for; source ranges may not keep all others out", "release", release, "oldest", node.Oldest)
	}
	p.log.Info("starting", "version", version, "node", p.loop.NodeName, "source", p.config.Source(),
		"protected", p.loop.Rules.Protect)
	ct := &p.config.Proxy.Conntrack
	err := node.SetConntrack(node.Conntrack{
		MaxPerCore: *ct.MaxPerCore, Min: *ct.Min,
		TCPEstablishedTimeout: ct.TCPEstablishedTimeout.Duration, TCPCloseWaitTimeout: ct.TCPCloseWaitTimeout.Duration,
		UDPTimeout: ct.UDPTimeout.Duration, UDPStreamTimeout: ct.UDPStreamTimeout.Duration,
		TCPBeLiberal: ct.TCPBeLiberal,
		GoOn:         !p.config.InitOnly,
	}, p.log)
	if err != nil {
		return fmt.Errorf("set up connection tracking: %w", err)
	}
	if p.config.InitOnly {
		return nil
	}
	if err := node.SetOOMScoreAdj(int(*p.config.Proxy.OOMScoreAdj)); err != nil {
		p.log.Warn("the kernel may end this process when memory is short", "err", err)
	}
	return nil
}

// ifAble leaves out of what the rules are to be what the kernel cannot do.
func ifAble(k *kernel.Kernel, rules *nft.Config) error {
	if !rules.Protect {
		return nil
	}
	able, err := k.SupportsOwner()
	rules.Protect = able
	return err
}
