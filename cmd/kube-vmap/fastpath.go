package main

import (
	"kube-vmap/cmd/components"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/sync/fastpath"
	"kube-vmap/sync/metrics"
)

// prepareFastPath creates the task of --fast-path, and its metrics.
func (p *proxy) prepareFastPath(m *metrics.Metrics) {
	if !p.config.FastPath {
		return
	}
	p.fastPath = fastpath.New(fastpath.Config{
		After: uint64(p.config.FastPathAfter), Log: p.log,
		Obstacle: func() string { return components.FastPathObstacle(components.Read(components.Config{})) },
		ForeignChanges: p.kernels.fastPath.ForeignChanges,
	})
	m.AddFastPath(func() (on bool, interfaces int) {
		s := p.fastPath.State()
		return s.On, s.Devices
	})
}

// fastPathStatus returns the state of the fast path; nil if it is not asked for.
func (p *proxy) fastPathStatus() *status.FastPath {
	if p.fastPath == nil {
		return nil
	}
	s := p.fastPath.State()
	return &status.FastPath{On: s.On, Reason: s.Reason, Interfaces: s.Devices, AfterPackets: int(p.config.FastPathAfter)}
}
