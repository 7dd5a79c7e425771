package main

import (
	"errors"

	"golang.org/x/sys/unix"

	"kube-vmap/cmd/components"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync/fastpath"
	"kube-vmap/sync/flows"
	"kube-vmap/sync/metrics"
)

// prepareFastPath creates the task of --fast-path, and its metrics.
func (p *proxy) prepareFastPath(m *metrics.Metrics) {
	if !p.config.FastPath {
		return
	}
	p.fastPath = fastpath.New(fastpath.Config{
		After: uint64(p.config.FastPathAfter), Log: p.log,
		Obstacle:    func() string { return components.FastPathObstacle(components.Read(components.Config{})) },
		CountCommit: p.kernels.takeover.CountCommit,
	})
	m.AddFastPath(func() (on bool, interfaces int) {
		s := p.fastPath.State()
		return s.On, s.Devices
	})
}

// fastPathStatus returns the state of the fast path; nil if it is not asked for.
func (p *proxy) fastPathStatus() *nodestatus.FastPath {
	if p.fastPath == nil {
		return nil
	}
	s := p.fastPath.State()
	return &nodestatus.FastPath{
		On: s.On, Reason: s.Reason, Interfaces: s.Devices,
		AfterPackets: int(p.config.FastPathAfter),
	}
}

// trackedFlows returns the kernel whose flows end.
func (p *proxy) trackedFlows() flows.Kernel {
	return trackedFlows{conntrack.New(conntrack.Config{}), p.fastPath}
}

// trackedFlows disables the fast path where the kernel does not delete connections that are on
// it: they would keep a removed endpoint. They leave the fast path with its table, so that the
// next try succeeds.
type trackedFlows struct {
	flows.Kernel
	fastPath *fastpath.FastPath // may be nil
}

// Delete implements [flows.Kernel].
func (t trackedFlows) Delete(entries []conntrack.Entry) (int, error) {
	n, err := t.Kernel.Delete(entries)
	if errors.Is(err, unix.EBUSY) && t.fastPath != nil {
		t.fastPath.Disable("the kernel does not delete connections on the fast path, which Linux 6.4 and later stable " +
			"releases of older ones do")
	}
	return n, err
}
