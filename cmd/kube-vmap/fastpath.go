package main

import (
	"slices"

	"kube-vmap/cmd/components"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/nft/kernel/flowtable"
	"kube-vmap/sync/fastpath"
	"kube-vmap/sync/metrics"
)

// prepareFastPath creates the task of --fast-path, and its metrics. Without the flag it removes what an earlier
// process may have left.
func (p *proxy) prepareFastPath(m *metrics.Metrics) error {
	if !p.config.FastPath {
		_, err := removeFastPath()
		return err
	}
	p.fastPath = fastpath.New(fastpath.Config{
		After: uint64(p.config.FastPathAfter), Log: p.log,
		Obstacle: func() string { return components.FastPathObstacle(components.Read(components.Config{})) },
	})
	m.AddFastPath(func() (on bool, interfaces int) {
		s := p.fastPath.State()
		return s.On, s.Devices
	})
	return nil
}

// removeFastPath removes the table of the fast path, and reports whether there was one.
func removeFastPath() (removed bool, err error) {
	tables, err := flowtable.List(0)
	if err != nil || !slices.ContainsFunc(tables, func(f flowtable.Flowtable) bool { return f.IsOurs() }) {
		return false, err
	}
	return true, flowtable.Remove(0)
}

// fastPathStatus returns the state of the fast path; nil if it is not asked for.
func (p *proxy) fastPathStatus() *status.FastPath {
	if p.fastPath == nil {
		return nil
	}
	s := p.fastPath.State()
	return &status.FastPath{On: s.On, Reason: s.Reason, Interfaces: s.Devices, AfterPackets: int(p.config.FastPathAfter)}
}
