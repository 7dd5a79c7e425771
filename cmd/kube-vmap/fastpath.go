package main

import (
	"errors"

	"golang.org/x/sys/unix"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/programs"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync/follow/fastpath"
	"kube-vmap/sync/follow/flows"
	"kube-vmap/sync/serve/metrics"
)

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
