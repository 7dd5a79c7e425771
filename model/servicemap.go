package model

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// ServiceMap holds every Service and EndpointSlice the node knows and says, when
// asked, which frontends have changed since it was last asked. An event costs
// what its Service costs, and of a slice among many not even that; only a change of
// the node touches all.
//
// What it is given, and what it gives, is shared: nobody may change the slices
// within. It is not safe for use by several goroutines.
type ServiceMap struct {
	options  Options
	node     Node
	services map[ServiceName]*entry
	count    int                               // how many of services have a service
	slices   map[EndpointSliceName]ServiceName // whose slice it is
	claims   claims
	dirty    []*entry // changed since Changes was last asked
	touched  []Match  // as well, whoever claims them
	noLocal  NoLocalEndpoints
	health   map[ServiceName]HealthCheck // those that changed
	excesses []OverBudget                // as well
	spending spending
	peaks    [2]int // of services and slices
	many     int    // how many slices of a Service are worth to be gathered
}

// entry is one Service with its slices. Slices may come before their Service.
type entry struct {
	name      ServiceName
	service   *Service        // nil while only slices are known
	served    *Service        // whose frontends these are
	slices    []EndpointSlice // sorted by name
	gathered  *gathered       // from slices, as of the last Changes; nil if there was no need
	frontends []Frontend
	without   map[*Frontend]bool // ClusterIPs that another Service holds
	replaced  bool               // frontends are new, and claim no address but ClusterIPs
	health    HealthCheck
	weight    int        // as of the last Changes
	sticky    int        // of its endpoints, how many remember clients
	excess    OverBudget // why it is not served, if it is beyond the budget
	dirty     bool       // stands in ServiceMap.dirty
}

// Changes is what differs from the last time.
type Changes struct {
	// Set are new or changed frontends, Gone are those that no Service has any
	// more; both sorted by Match.
	Set  []Frontend
	Gone []Match
	// ConflictCount are claims lost to another Service, new since the last time;
	// sorted by Match, and for each by age of the loser.
	Conflicts []Conflict
	// HealthChecks are those that are new or changed, or gone, without a port
	// then; sorted by Service.
	HealthChecks []HealthCheck
	// OverBudget are Services that are beyond the budget, or are within it again.
	OverBudget []OverBudget
}

// NoLocalEndpoints counts Service ports, by family, whose policy is [PolicyLocal] while
// all their endpoints are on other nodes.
type NoLocalEndpoints struct {
	Internal, External [len(Families)]int
}

// NewServiceMap makes an empty map.
func NewServiceMap(o Options, n Node) *ServiceMap {
	return &ServiceMap{
		options:  o,
		node:     n,
		services: map[ServiceName]*entry{},
		slices:   map[EndpointSliceName]ServiceName{},
		claims:   newClaims(),
		health:   map[ServiceName]HealthCheck{},
		spending: spending{by: map[string]int{}},
		many:     manySlices,
	}
}

// SetService adds a Service or replaces the one of its name.
func (m *ServiceMap) SetService(s Service) {
	e := m.entry(s.Name)
	if e.service == nil {
		m.count++
	}
	e.service = &s
}

// DeleteService removes a Service; its slices stay known.
func (m *ServiceMap) DeleteService(name ServiceName) {
	if e := m.services[name]; e != nil && e.service != nil {
		m.count--
		e.service = nil
		m.mark(e)
	}
}

// SetSlice adds an EndpointSlice or replaces the one of its name, whichever
// Service that belonged to.
func (m *ServiceMap) SetSlice(s EndpointSlice) {
	if owner, ok := m.slices[s.Name]; ok && owner != s.Service {
		m.DeleteSlice(s.Name)
	}
	m.slices[s.Name] = s.Service
	e := m.entry(s.Service)
	e.gathered.note(s.Name)
	i, found := e.find(s.Name)
	if found {
		e.slices[i] = s
		return
	}
	e.slices = slices.Insert(e.slices, i, s)
}

// DeleteSlice removes an EndpointSlice.
func (m *ServiceMap) DeleteSlice(name EndpointSliceName) {
	owner, ok := m.slices[name]
	if !ok {
		return
	}
	delete(m.slices, name)
	e := m.entry(owner)
	e.gathered.note(name)
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
	m.markAll()
}

// SetOptions replaces what [NewServiceMap] was given.
func (m *ServiceMap) SetOptions(o Options) {
	if o == m.options {
		return
	}
	m.options = o
	m.markAll()
}

// SetNodeAddrs replaces the addresses that serve node ports; there are none at
// first. A Service that lists one of them as an external address gets no port of it
// that is a node port.
func (m *ServiceMap) SetNodeAddrs(addrs []netip.Addr) {
	m.touched = append(m.touched, m.claims.setNodeAddrs(addrs)...)
}

// Len is the number of Services.
func (m *ServiceMap) Len() int { return m.count }

// Service is the Service of that name, or nil.
func (m *ServiceMap) Service(name ServiceName) *Service {
	if e := m.services[name]; e != nil {
		return e.service
	}
	return nil
}

// NoLocalEndpoints counts what no node but others can serve, as of the last Changes.
func (m *ServiceMap) NoLocalEndpoints() NoLocalEndpoints { return m.noLocal }

// ConflictCount is the number of claims that are lost, as of the last Changes.
func (m *ServiceMap) ConflictCount() int { return m.claims.losers }

// NodePortCount is the number of node ports of a family, as of the last Changes.
func (m *ServiceMap) NodePortCount(f Family) int { return m.claims.nodePorts[f] }

// Changes works out what the events since the last call changed.
func (m *ServiceMap) Changes() Changes {
	s := settlement{ServiceMap: m, touched: m.touched}
	m.touched = nil
	m.spend()
	for _, e := range m.dirty {
		e.dirty = false
		s.replace(e)
	}
	clear(m.dirty)
	m.dirty = m.dirty[:0]
	out := s.changes()
	for _, name := range slices.SortedFunc(maps.Keys(m.health), ServiceName.Compare) {
		out.HealthChecks = append(out.HealthChecks, m.health[name])
	}
	clear(m.health)
	m.services, m.slices = Shrink(m.services, &m.peaks[0]), Shrink(m.slices, &m.peaks[1])
	out.OverBudget, m.excesses = m.excesses, nil
	return out
}

// frontendsOf lists every frontend as it stood after the last Changes, sorted by
// Match.
func (m *ServiceMap) Frontends() []Frontend {
	return m.claims.winners()
}

// FrontendsOf lists those of [ServiceMap.Frontends] that are one Service's.
func (m *ServiceMap) FrontendsOf(name ServiceName) []Frontend {
	var out []Frontend
	if e := m.services[name]; e != nil {
		for i := range e.frontends {
			if f := &e.frontends[i]; m.claims.settled[f.Match] == f {
				out = append(out, *f)
			}
		}
	}
	return out
}

// HealthChecks lists all there are, as of the last Changes, sorted by Service.
func (m *ServiceMap) HealthChecks() []HealthCheck {
	var out []HealthCheck
	for _, e := range m.services {
		if e.health.Port != 0 {
			out = append(out, e.health)
		}
	}
	slices.SortFunc(out, func(a, b HealthCheck) int { return a.Service.Compare(b.Service) })
	return out
}

// update computes the frontends and the health check of one Service again.
func (m *ServiceMap) update(e *entry) {
	m.countNotLocal(e, -1)
	e.gather(m.many, m.node)
	e.frontends = nil
	view := &view{e.slices, &m.node, e.gathered}
	if e.service != nil && e.excess.Weight == 0 {
		e.frontends = m.options.frontends(e.service, view)
	}
	e.gathered.forget()
	m.countNotLocal(e, +1)
	m.updateHealth(e, view)
	if e.service == nil && len(e.slices) == 0 {
		delete(m.services, e.name)
	}
}

// updateHealth notes a health check that is not what it was.
func (m *ServiceMap) updateHealth(e *entry, v *view) {
	next := HealthCheck{Service: e.name}
	if e.service != nil {
		next = healthCheck(e.service, v)
	}
	if before := e.health; next.Port != before.Port || next.Port != 0 && next != before {
		e.health = next
		m.health[e.name] = next
	}
}

// countNotLocal adds n for each Service port of the entry that counts in
// [NoLocalEndpoints].
func (m *ServiceMap) countNotLocal(e *entry, n int) {
	for i := range e.frontends {
		f := &e.frontends[i]
		switch {
		case f.Verdict != VerdictDrop:
		case f.OwnsPool():
			m.noLocal.Internal[f.Match.Family] += n
		case e.frontends[i-1].OwnsPool(): // the first one of the port from outside
			m.noLocal.External[f.Match.Family] += n
		}
	}
}

// entry finds or makes the entry of a Service and marks it as changed.
func (m *ServiceMap) entry(name ServiceName) *entry {
	e := m.services[name]
	if e == nil {
		e = &entry{name: name}
		m.services[name] = e
	}
	m.mark(e)
	return e
}

// mark notes that the entry has changed.
func (m *ServiceMap) mark(e *entry) {
	if !e.dirty {
		e.dirty = true
		m.dirty = append(m.dirty, e)
	}
}

// markAll notes that every entry may have changed.
func (m *ServiceMap) markAll() {
	for _, e := range m.services {
		m.mark(e)
	}
}

// gather brings what is gathered from slices up to date, if there are many, and
// gives up what nobody needs.
func (e *entry) gather(many int, n Node) {
	switch {
	case e.service == nil || len(e.slices) < many:
		e.gathered = nil
	case e.gathered == nil || e.gathered.node != n:
		e.gathered = gather(e.slices, n)
	default:
		e.gathered.update(e.slice)
	}
}

// slice is the slice of that name, or nil.
func (e *entry) slice(name EndpointSliceName) *EndpointSlice {
	if i, found := e.find(name); found {
		return &e.slices[i]
	}
	return nil
}

// find tells where the slice of that name is, or belongs.
func (e *entry) find(name EndpointSliceName) (int, bool) {
	return slices.BinarySearchFunc(e.slices, name, func(s EndpointSlice, n EndpointSliceName) int {
		return cmp.Or(cmp.Compare(s.Name.Namespace, n.Namespace), cmp.Compare(s.Name.Name, n.Name))
	})
}
