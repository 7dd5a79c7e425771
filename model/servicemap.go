package model

import (
	"cmp"
	"slices"
)

// ServiceMap holds every Service and EndpointSlice the node knows and says, when
// asked, which frontends have changed since it was last asked. An event costs
// what its Service costs; only a change of the node touches all.
//
// It is not safe for use by several goroutines.
type ServiceMap struct {
	options  Options
	node     Node
	services map[ServiceName]*entry
	slices   map[SliceName]ServiceName // whose slice it is
	claims   claims
	dirty    map[ServiceName]struct{}
}

// entry is one Service with its slices. Slices may come before their Service.
type entry struct {
	service   *Service // nil while only slices are known
	slices    []Slice  // sorted by name
	frontends []Frontend
}

// Changes is what differs from the last time.
type Changes struct {
	// Set are new or changed frontends, Gone are those that no Service has any
	// more; both sorted by Match.
	Set  []Frontend
	Gone []Match
	// Conflicts are claims lost to an older Service, new since the last time.
	Conflicts []Conflict
}

// NewServiceMap makes an empty map.
func NewServiceMap(o Options, n Node) *ServiceMap {
	return &ServiceMap{
		options:  o,
		node:     n,
		services: map[ServiceName]*entry{},
		slices:   map[SliceName]ServiceName{},
		claims:   newClaims(),
		dirty:    map[ServiceName]struct{}{},
	}
}

// SetService adds a Service or replaces the one of its name.
func (m *ServiceMap) SetService(s Service) {
	m.entry(s.Name).service = &s
}

// DeleteService removes a Service; its slices stay known.
func (m *ServiceMap) DeleteService(name ServiceName) {
	if e := m.services[name]; e != nil {
		m.entry(name).service = nil
	}
}

// SetSlice adds an EndpointSlice or replaces the one of its name, whichever
// Service that belonged to.
func (m *ServiceMap) SetSlice(s Slice) {
	if owner, ok := m.slices[s.Name]; ok && owner != s.Service {
		m.DeleteSlice(s.Name)
	}
	m.slices[s.Name] = s.Service
	e := m.entry(s.Service)
	i, found := e.find(s.Name)
	if found {
		e.slices[i] = s
		return
	}
	e.slices = slices.Insert(e.slices, i, s)
}

// DeleteSlice removes an EndpointSlice.
func (m *ServiceMap) DeleteSlice(name SliceName) {
	owner, ok := m.slices[name]
	if !ok {
		return
	}
	delete(m.slices, name)
	e := m.entry(owner)
	if i, found := e.find(name); found {
		e.slices = slices.Delete(e.slices, i, i+1)
	}
}

// SetNode says what is now known of the node; hints and local policies may
// choose other endpoints for every Service.
func (m *ServiceMap) SetNode(n Node) {
	if n == m.node {
		return
	}
	m.node = n
	for name := range m.services {
		m.dirty[name] = struct{}{}
	}
}

// Len is the number of Services.
func (m *ServiceMap) Len() int {
	n := 0
	for _, e := range m.services {
		if e.service != nil {
			n++
		}
	}
	return n
}

// Changes works out what the events since the last call changed.
func (m *ServiceMap) Changes() Changes {
	touched := map[Match]struct{}{}
	for name := range m.dirty {
		m.update(name, touched)
	}
	clear(m.dirty)
	return m.claims.settle(touched)
}

// Frontends lists every frontend as it should stand now, sorted by Match.
func (m *ServiceMap) Frontends() []Frontend {
	return m.claims.winners()
}

// update computes the frontends of one Service anew and notes every match that
// it claims, or claimed until now.
func (m *ServiceMap) update(name ServiceName, touched map[Match]struct{}) {
	e := m.services[name]
	old := e.frontends
	e.frontends = nil
	if e.service != nil {
		e.frontends = m.options.Frontends(e.service, e.slices, m.node)
	}
	for i := range old {
		m.claims.withdraw(name, old[i].Match)
		touched[old[i].Match] = struct{}{}
	}
	for i := range e.frontends {
		m.claims.add(e.service, &e.frontends[i])
		touched[e.frontends[i].Match] = struct{}{}
	}
	if e.service == nil && len(e.slices) == 0 {
		delete(m.services, name)
	}
}

// entry finds or makes the entry of a Service and marks it as changed.
func (m *ServiceMap) entry(name ServiceName) *entry {
	m.dirty[name] = struct{}{}
	e := m.services[name]
	if e == nil {
		e = &entry{}
		m.services[name] = e
	}
	return e
}

// find tells where the slice of that name is, or belongs.
func (e *entry) find(name SliceName) (int, bool) {
	return slices.BinarySearchFunc(e.slices, name, func(s Slice, n SliceName) int {
		return cmp.Or(cmp.Compare(s.Name.Namespace, n.Namespace), cmp.Compare(s.Name.Name, n.Name))
	})
}
