package main

import (
	"time"

	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
)

// proxy is what the daemon does, without the API: a cluster that changes and a
// rule set that follows.
type proxy struct {
	*cluster
	kernel *kernel.Kernel
	rules  *nft.Ruleset
}

// newProxy brings what the kernel holds to what the cluster is.
func newProxy(c *cluster, k *kernel.Kernel) (*proxy, error) {
	have, err := k.Read()
	if err != nil {
		return nil, err
	}
	rules, batch := nft.Adopt(config, have, c.all())
	if _, err := k.Apply(batch); err != nil {
		return nil, err
	}
	return &proxy{c, k, rules}, nil
}

// followed is what it took to follow a change: the endpoints were selected, the
// batch planned, encoded and committed.
type followed struct {
	total, model, plan time.Duration
	counts             nft.Counts
	nft.Applied
}

// ours is the time spent outside of both model and kernel.
func (f *followed) ours() time.Duration { return f.total - f.model - f.Kernel }

// follow makes a change and brings the rule set after it.
func (p *proxy) follow(change []sync.Event) (f followed, err error) {
	start := time.Now()
	p.apply(change)
	changed := p.changes()
	f.model = time.Since(start)
	plan := p.rules.Plan(changed)
	f.plan = time.Since(start) - f.model
	if f.Applied, err = p.kernel.Apply(plan.Batch); err != nil {
		return f, err
	}
	p.rules.Commit(plan)
	f.total = time.Since(start)
	f.counts = plan.Batch.Counts()
	return f, nil
}

// rehearse makes a change without the kernel and returns the bytes it would
// send. The opposite must be rehearsed too, before anything else is done.
func (p *proxy) rehearse(change []sync.Event) ([]byte, error) {
	p.apply(change)
	plan := p.rules.Plan(p.changes())
	p.rules.Commit(plan)
	e, err := plan.Batch.Encode()
	if err != nil {
		return nil, err
	}
	return e.Bytes, nil
}
