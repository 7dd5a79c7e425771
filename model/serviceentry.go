package model

import (
	"cmp"
	"slices"
)

// serviceEntry is one Service of a [ServiceMap] with its slices, which may arrive
// before it.
type serviceEntry struct {
	name     ServiceName
	service  *Service       // nil while only slices are known
	slices   endpointSlices // sorted by name
	dirty    bool           // in ServiceMap.dirty
	overlays map[overlayTarget]Overlay

	// What the last Changes computed:

	builtFrom      *Service       // the Service of frontends
	cache          *endpointCache // of slices; nil if they are few, or have priorities
	frontends      []Frontend
	lostClusterIPs map[*Frontend]bool // frontends whose ClusterIP another Service holds
	rebuilt        bool               // frontends are new, and claim only ClusterIPs so far
	elsewhere      bool               // other nodes serve all but the ClusterIPs
	health         HealthCheck
	// weight is the Service's weight in the budget.
	weight     int
	overBudget OverBudget // why it is not served, if its weight is above zero
	withdrawn  bool       // it is not served until its namespace is no longer postponed; see ChangesExcept
}

func (e *serviceEntry) setSlice(s EndpointSlice) {
	e.cache.markChanged(s.Name)
	i, found := e.find(s.Name)
	if found {
		e.slices[i] = s
		return
	}
	e.slices = slices.Insert(e.slices, i, s)
}

// deleteSlice removes a slice that the entry has.
func (e *serviceEntry) deleteSlice(name EndpointSliceName) {
	e.cache.markChanged(name)
	i, _ := e.find(name)
	e.slices = slices.Delete(e.slices, i, i+1)
}

// slice returns the slice of that name, or nil.
func (e *serviceEntry) slice(name EndpointSliceName) *EndpointSlice {
	if i, found := e.find(name); found {
		return &e.slices[i]
	}
	return nil
}

// find returns the index of the slice of that name, or where it belongs.
func (e *serviceEntry) find(name EndpointSliceName) (int, bool) {
	return slices.BinarySearchFunc(e.slices, name, func(s EndpointSlice, n EndpointSliceName) int {
		return cmp.Or(cmp.Compare(s.Name.Namespace, n.Namespace), cmp.Compare(s.Name.Name, n.Name))
	})
}

// updateCache brings the cache up to date, or drops it if it is not needed.
func (e *serviceEntry) updateCache(minSlices int, n Node) {
	switch {
	case e.service == nil || len(e.slices) < minSlices || e.slices.prioritized():
		e.cache = nil
	case e.cache == nil || e.cache.node != n:
		e.cache = newEndpointCache(e.slices, n)
	default:
		e.cache.update(e.slice)
	}
}

// setClusterIPLost records whether another Service holds the ClusterIP of a port.
func (e *serviceEntry) setClusterIPLost(clusterIP *Frontend, lost bool) {
	if !lost {
		delete(e.lostClusterIPs, clusterIP)
		return
	}
	if e.lostClusterIPs == nil {
		e.lostClusterIPs = map[*Frontend]bool{}
	}
	e.lostClusterIPs[clusterIP] = true
}

// update computes the frontends and the health check of one Service again.
func (m *ServiceMap) update(e *serviceEntry) {
	m.countNoLocal(e, -1)
	if !e.withdrawn {
		e.updateCache(m.minCachedSlices, m.node)
	}
	e.frontends, e.elsewhere = nil, e.service != nil && !e.service.Nodes.selects(m.hasLabel)
	view := &endpointView{serviceEntry: e, node: &m.node, nodeAddrs: m.claims.nodeAddrs}
	if e.service != nil && e.overBudget.Weight == 0 && !e.withdrawn {
		e.frontends = m.options.frontends(e.service, view)
	}
	e.applyOverlays(&m.options)
	e.cache.dropUnused()
	m.countNoLocal(e, +1)
	if next := view.healthCheck(); next.Port != e.health.Port || next.Port != 0 && next != e.health {
		e.health, m.health[e.name] = next, next
	}
	if e.service == nil && len(e.slices) == 0 {
		delete(m.services, e.name)
	}
}

// countNoLocal adds n to [NoLocalEndpoints] for each port of the entry that counts
// there.
func (m *ServiceMap) countNoLocal(e *serviceEntry, n int) {
	for i := range e.frontends {
		f := &e.frontends[i]
		switch {
		case f.Verdict != VerdictDrop:
		case f.IsClusterIP():
			m.noLocal.Internal[f.Match.Family] += n
		case e.frontends[i-1].IsClusterIP(): // f is the port's first external frontend
			m.noLocal.External[f.Match.Family] += n
		}
	}
}
