package main

import (
	"context"
	"net/netip"

	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/model"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/affinity"
	"kube-vmap/sync/connections"
	"kube-vmap/sync/flows"
	"kube-vmap/sync/health"
	"kube-vmap/sync/healthcheck"
	"kube-vmap/sync/localhost"
	"kube-vmap/sync/metrics"
)

// follower is a task that does what follows from what the kernel has taken.
type follower interface {
	sync.Follower
	Run(context.Context) error
}

// followers are the tasks beside the loop. k is a kernel of their own.
func (p *proxy) followers(k *kernel.Kernel, h *health.Health, m *metrics.Metrics) []follower {
	var recorder sync.Recorder
	if p.events != nil {
		recorder = p.events
	}
	out := []follower{
		flows.New(flows.Config{EndTCP: p.config.EndTCPFlows(), Reconciled: m.Reconciled},
			conntrack.New(conntrack.Config{}), p.log),
		affinity.New(affinity.Config{Kernel: k, Log: p.log, Full: m.AffinityFull}),
		healthcheck.New(healthcheck.Config{
			AllAddresses: everywhere(p.config), Healthy: h.Healthy, Recorder: recorder, Log: p.log,
		}),
	}
	if p.config.CountConnections() {
		c := connections.New(connections.Config{Kernel: p.counting, Log: p.log})
		m.AddConnections(c, p.config.EndpointMetrics())
		out = append(out, c)
	}
	if p.config.LocalhostNodePorts() {
		out = append(out, localhost.New(localhost.Config{Recorder: recorder, Log: p.log}))
	}
	return out
}

// everywhere tells of each family whether node ports answer on every address
// whatever the node's own are.
func everywhere(c *config.Config) (all [len(model.Families)]bool) {
	ports := c.NodePorts()
	for _, f := range model.Families {
		all[f] = !ports.Primary && ports.All(f, [len(model.Families)]netip.Addr{})
	}
	return all
}
