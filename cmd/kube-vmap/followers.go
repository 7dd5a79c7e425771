package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/programs"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/affinity"
	"kube-vmap/sync/follow/connections"
	"kube-vmap/sync/follow/demand"
	"kube-vmap/sync/follow/fastpath"
	"kube-vmap/sync/follow/flows"
	"kube-vmap/sync/follow/healthcheck"
	"kube-vmap/sync/follow/hold"
	"kube-vmap/sync/follow/leastconn"
	"kube-vmap/sync/follow/localhost"
	"kube-vmap/sync/follow/passivehealth"
	"kube-vmap/sync/follow/slowstart"
	"kube-vmap/sync/serve/health"
	"kube-vmap/sync/serve/metrics"
	"kube-vmap/sync/source/addresses"
)

// follower is a task that acts on what the loop has committed.
type follower interface {
	sync.Follower
	Run(context.Context) error
}

// followers returns the tasks that follow the loop. It connects to the loop what they send.
func (p *proxy) followers(h *health.Health, m *metrics.Metrics) []follower {
	recorder := p.loop.Recorder
	p.loop.Overlays = make(chan []model.Overlay)
	p.checks = healthcheck.New(healthcheck.Config{
		AllAddresses: allAddresses(p.config), Healthy: h.Healthy, Recorder: recorder, Log: p.log,
	})
	p.problems = append(p.problems, p.checks.Problems, p.takeover.Problems)
	out := []follower{
		p.checks, flows.New(flows.Config{
			EndTCP: p.config.EndTCPFlows, Reconciled: m.Reconciled, Background: p.loop.Background,
		},
			p.flowKernel(m), p.log),
		leastconn.New(leastconn.Config{
			Tracking: conntrack.New(conntrack.Config{}), Overlays: p.loop.Overlays, Log: p.log,
			Background: p.loop.Background,
		}),
		slowstart.New(p.loop.Overlays, p.loop.Background),
		affinity.New(affinity.Config{
			Kernel: p.handles.take(), Log: p.log, Recorder: recorder, Full: m.AffinityFull, Background: p.loop.Background,
		}),
	}
	holds := hold.New(hold.Config{
		Kernel: p.handles.take(), Tracking: conntrack.New(conntrack.Config{}), Overlays: p.loop.Overlays,
		Addresses: addresses.Read, TCPTimeout: conntrack.TCPTimeout, Recorder: recorder, Log: p.log,
		Background: p.loop.Background,
	})
	m.AddDemand(holds.Demand)
	p.waiting = holds.Waiting
	out = append(out, p.passiveHealth(m), holds)
	if model.ProxyName() == "" { // kube-vmap-scaler follows one proxy of a node
		out = append(out, p.demandReporter(holds))
	}
	if p.config.CountConnections {
		c := connections.New(connections.Config{
			Kernel: p.handles.take(), Log: p.log, Recorder: recorder, Background: p.loop.Background,
		})
		m.AddConnections(c, p.config.EndpointMetrics)
		out = append(out, c)
	}
	if families := p.config.LocalhostNodePorts(); slices.Contains(families[:], true) {
		l := localhost.New(localhost.Config{Families: families, Recorder: recorder, Log: p.log})
		m.AddLocalhost(l)
		p.problems = append(p.problems, l.Problems)
		p.reports = append(p.reports, func(h *nodestatus.Health) { h.Localhost = l.Addresses() })
		out = append(out, l)
	}
	return out
}

// demandReporter returns the follower that reports demand to kube-vmap-scaler.
func (p *proxy) demandReporter(h *hold.Hold) follower {
	r := demand.New(demand.Config{
		Demand: h.Demand, Changed: h.DemandChanged(), Dir: p.config.ScalerDirectory, Log: p.log,
		Background: p.loop.Background,
	})
	p.reports = append(p.reports, func(h *nodestatus.Health) {
		if since, err := r.Failure(); err != nil {
			h.Problems = append(h.Problems, nodestatus.Problem{
				Object: "Node " + p.loop.NodeName, Reason: nodestatus.ReasonDemand,
				Text: fmt.Sprintf("the demand for Services that scale to zero has not been reported for %s: %v",
					time.Since(since).Round(time.Second), err),
			})
		}
	})
	return r
}

// passiveHealth returns the follower that finds unresponsive endpoints.
func (p *proxy) passiveHealth(m *metrics.Metrics) follower {
	t := passivehealth.New(passivehealth.Config{
		NodeName: p.loop.NodeName, Tracking: conntrack.New(conntrack.Config{}), Counter: p.handles.take(),
		Probe:    passivehealth.Prober{Mark: p.loop.Rules.ProbeMark()}.Probe,
		Overlays: p.loop.Overlays, Recorder: p.loop.Recorder, Log: p.log, Background: p.loop.Background,
	})
	m.AddPassiveHealth(t)
	p.unresponsive = t.Report
	return t
}

// allAddresses reports for each family whether node ports answer on every address of the node.
func allAddresses(c *config.Config) (all [len(model.Families)]bool) {
	ports := c.NodePorts()
	for _, f := range model.Families {
		all[f] = !ports.Primary && ports.All(f, [len(model.Families)]netip.Addr{})
	}
	return all
}

// flowKernel returns the kernel whose flows end. With --fast-path it also creates the task of that,
// its metrics and its state in the health.
func (p *proxy) flowKernel(m *metrics.Metrics) flows.Kernel {
	kernel := conntrack.New(conntrack.Config{})
	if !p.config.FastPath {
		return kernel
	}
	f := fastpath.New(fastpath.Config{
		After: uint64(p.config.FastPathAfter), Log: p.log,
		Obstacle:    func() string { return programs.Obstacle(programs.Read(programs.Config{})) },
		CountCommit: p.handles.take().CountCommit,
	})
	p.tasks = append(p.tasks, f.Run)
	p.reports = append(p.reports, func(h *nodestatus.Health) {
		s := f.State()
		h.FastPath = &nodestatus.FastPath{
			On: s.On, Reason: s.Reason, Interfaces: s.Devices, AfterPackets: int(p.config.FastPathAfter),
		}
	})
	m.AddFastPath(func() (on bool, interfaces int) { return f.State().On, f.State().Devices })
	return trackedFlows{kernel, f}
}

// trackedFlows disables the fast path where the kernel does not delete connections that are on
// it: they would keep a removed endpoint. They leave the fast path with its table, so the
// next try succeeds.
type trackedFlows struct {
	flows.Kernel
	fastPath *fastpath.FastPath
}

// Delete implements [flows.Kernel].
func (t trackedFlows) Delete(entries []conntrack.Entry) (int, error) {
	n, err := t.Kernel.Delete(entries)
	if errors.Is(err, unix.EBUSY) {
		t.fastPath.Disable("the kernel does not delete connections on the fast path, which Linux 6.4 and later stable " +
			"releases of older ones do")
	}
	return n, err
}
