package main

import (
	"time"

	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/wire"
	"kube-vmap/sync"
)

// proxy is the daemon without the API: a cluster, and a rule set that follows it.
type proxy struct {
	*cluster
	kernel *kernel.Kernel
	rules  *nft.Ruleset
}

// newProxy programs the kernel for the cluster.
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

// followed is how long the steps of a change took: to select endpoints, and to plan,
// encode and commit the batch.
type followed struct {
	total, model, plan time.Duration
	counts             nft.Counts
	nft.Applied
}

// ours returns the time spent outside of model and kernel.
func (f *followed) ours() time.Duration { return f.total - f.model - f.Kernel }

// follow applies a change to the cluster and the rule set.
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

// rehearse applies a change without the kernel and returns the bytes it would send. The
// opposite must be rehearsed before anything else happens.
func (p *proxy) rehearse(change []sync.Event) ([]byte, error) {
	p.apply(change)
	plan := p.rules.Plan(p.changes())
	p.rules.Commit(plan)
	e, err := wire.Encode(plan.Batch)
	if err != nil {
		return nil, err
	}
	return e.Bytes, nil
}
