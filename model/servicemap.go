package model

import (
	"maps"
	"net/netip"
	"slices"
)

// ServiceMap holds the Services and EndpointSlices that the node knows and computes which
// frontends changed since the last call of Changes. An event costs in proportion to its
// Service, and a slice of a Service with many slices costs less; only a change of the
// node or the options touches all Services.
//
// Methods that report state report the state of the last Changes, except for Len, Service
// and Snapshot, which include later events.
//
// Arguments and results are shared: the slices in them must not be changed. A ServiceMap
// is not safe for concurrent use.
type ServiceMap struct {
	options  Options
	node     Node            // without labels, on which only some Services depend
	labels   NameSet         // of the node
	hasLabel map[string]bool // the same
	services map[ServiceName]*serviceEntry
	count    int                               // entries that have a Service
	slices   map[EndpointSliceName]ServiceName // the Service of each slice
	claims   claims

	// What changed since the last Changes:
	dirty      []*serviceEntry
	allMarked  bool    // because the node or the options changed
	touched    []Match // whose holder may have changed for another reason
	health     map[ServiceName]HealthCheck
	overBudget []OverBudget

	noLocal         NoLocalEndpoints
	usage           budgetUsage
	peaks           [2]int // largest sizes of services and slices; see Shrink
	minCachedSlices int    // tests change it
}

// Changes is the difference to what the previous [ServiceMap.Changes] returned.
type Changes struct {
	// Set are new or changed frontends, Removed are removed ones; both sorted by Match.
	Set     []Frontend
	Removed []Match
	// Conflicts are the new ones; sorted by Match, then by age of the loser.
	Conflicts []Conflict
	// HealthChecks are new, changed or, without a port, removed; sorted by Service.
	HealthChecks []HealthCheck
	// OverBudget are Services that are now over the budget or within it again.
	OverBudget []OverBudget
	// Work is each namespace's share of the cost of these changes, or nil if they were
	// due to the node or the options.
	Work map[string]int
	// Postponed are the namespaces with postponed changes; see [ServiceMap.ChangesExcept].
	Postponed []string
}

// NoLocalEndpoints counts by family the Service ports whose policy is [PolicyLocal]
// while all their endpoints are on other nodes.
type NoLocalEndpoints struct {
	Internal, External [len(Families)]int
}

// NewServiceMap returns an empty map.
func NewServiceMap(o Options, n Node) *ServiceMap {
	labels := n.Labels
	n.Labels = ""
	m := &ServiceMap{
		options:         o,
		node:            n,
		services:        map[ServiceName]*serviceEntry{},
		slices:          map[EndpointSliceName]ServiceName{},
		claims:          claims{byMatch: map[Match][]claim{}, winners: map[Match]*Frontend{}, loserCounts: map[Match]int{}},
		health:          map[ServiceName]HealthCheck{},
		usage:           budgetUsage{byNamespace: map[string]int{}},
		minCachedSlices: minCachedSlices,
	}
	m.setLabels(labels)
	return m
}

// SetService adds a Service or replaces the one of the same name. Like the methods below, it
// reports whether that changes anything; what is equal stays as it is.
func (m *ServiceMap) SetService(s Service) bool {
	before := m.Service(s.Name)
	switch {
	case before == nil:
		m.count++
	case before.equal(&s):
		return false
	}
	m.entry(s.Name).service = &s
	return true
}

// DeleteService removes a Service but not its slices.
func (m *ServiceMap) DeleteService(name ServiceName) bool {
	if m.Service(name) == nil {
		return false
	}
	m.count--
	m.entry(name).service = nil
	return true
}

// SetSlice adds an EndpointSlice or replaces the one of the same name, even if that
// belonged to another Service.
func (m *ServiceMap) SetSlice(s EndpointSlice) bool {
	switch owner, known := m.slices[s.Name]; {
	case known && owner != s.Service:
		m.DeleteSlice(s.Name)
	case known && m.services[owner].slice(s.Name).equal(&s):
		return false
	}
	m.slices[s.Name] = s.Service
	m.entry(s.Service).setSlice(s)
	return true
}

// DeleteSlice removes an EndpointSlice.
func (m *ServiceMap) DeleteSlice(name EndpointSliceName) bool {
	owner, known := m.slices[name]
	if known {
		delete(m.slices, name)
		m.entry(owner).deleteSlice(name)
	}
	return known
}

// SetNode replaces the node. Hints and local policies may then select other endpoints
// for every Service; other labels matter only to Services with a [NodeSelector].
func (m *ServiceMap) SetNode(n Node) {
	m.setLabels(n.Labels)
	n.Labels = ""
	if n != m.node {
		m.node = n
		m.markAll()
	}
}

// SetOptions replaces the options.
func (m *ServiceMap) SetOptions(o Options) {
	if o != m.options {
		m.options = o
		m.markAll()
	}
}

// SetNodeAddrs replaces the addresses that serve node ports; the initial list is empty.
// On these addresses node ports take precedence over the external addresses of Services.
func (m *ServiceMap) SetNodeAddrs(addrs []netip.Addr) {
	m.touched = append(m.touched, m.claims.setNodeAddrs(addrs)...)
	for _, e := range m.services {
		if e.service != nil && e.service.RangesForAll {
			m.mark(e) // the addresses may be clients
		}
	}
}

// Changes computes the effect of the events since the last call.
func (m *ServiceMap) Changes() Changes {
	return m.ChangesExcept(func(string) bool { return false })
}

// changes computes the effect of the changed entries.
func (m *ServiceMap) changes() Changes {
	r := resolver{ServiceMap: m, touched: m.touched}
	m.touched = nil
	for _, e := range m.dirty {
		e.dirty = false
		r.rebuild(e)
	}
	clear(m.dirty)
	m.dirty = m.dirty[:0]
	out := r.changes()
	for _, name := range slices.SortedFunc(maps.Keys(m.health), ServiceName.Compare) {
		out.HealthChecks = append(out.HealthChecks, m.health[name])
	}
	clear(m.health)
	m.services, m.slices = Shrink(m.services, &m.peaks[0]), Shrink(m.slices, &m.peaks[1])
	out.OverBudget, m.overBudget = m.overBudget, nil
	return out
}

// Len returns the number of Services.
func (m *ServiceMap) Len() int { return m.count }

// Service returns the Service of that name, or nil.
func (m *ServiceMap) Service(name ServiceName) *Service {
	if e := m.services[name]; e != nil {
		return e.service
	}
	return nil
}

// Frontends lists every frontend, sorted by Match.
func (m *ServiceMap) Frontends() []Frontend { return m.list(true) }

// Elsewhere lists the frontends that only other nodes serve.
func (m *ServiceMap) Elsewhere() []Frontend { return m.list(false) }

func (m *ServiceMap) list(here bool) []Frontend {
	out := make([]Frontend, 0, len(m.claims.winners))
	for _, match := range slices.SortedFunc(maps.Keys(m.claims.winners), Match.Compare) {
		if f := m.claims.winners[match]; f.here() == here {
			out = append(out, *f)
		}
	}
	return out
}

// FrontendAt returns the frontend that has a match, or nil.
func (m *ServiceMap) FrontendAt(match Match) *Frontend {
	if f := m.claims.winners[match]; f.here() {
		return f
	}
	return nil
}

// FrontendsOf lists the frontends of one Service.
func (m *ServiceMap) FrontendsOf(name ServiceName) []Frontend {
	var out []Frontend
	if e := m.services[name]; e != nil {
		for i := range e.frontends {
			if f := &e.frontends[i]; m.FrontendAt(f.Match) == f {
				out = append(out, *f)
			}
		}
	}
	return out
}

// HealthChecks lists all health checks, sorted by Service.
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

// Conflicts lists all conflicts, unsorted.
func (m *ServiceMap) Conflicts() []Conflict {
	out := make([]Conflict, 0, m.claims.loserTotal)
	for match := range m.claims.loserCounts {
		for _, cl := range m.claims.byMatch[match] {
			if lost, loses := m.claims.conflict(cl); loses {
				out = append(out, lost)
			}
		}
	}
	return out
}

// ConflictCount returns the number of conflicts.
func (m *ServiceMap) ConflictCount() int { return m.claims.loserTotal }

// NodePortCount returns the number of node ports of a family.
func (m *ServiceMap) NodePortCount(f Family) int { return m.claims.nodePorts[f] }

// NoLocalEndpoints counts the Service ports that only other nodes can serve.
func (m *ServiceMap) NoLocalEndpoints() NoLocalEndpoints { return m.noLocal }

// entry returns the entry of a Service, which it adds if necessary, and marks it as
// changed.
func (m *ServiceMap) entry(name ServiceName) *serviceEntry {
	e := m.services[name]
	if e == nil {
		e = &serviceEntry{name: name}
		m.services[name] = e
	}
	m.mark(e)
	return e
}

func (m *ServiceMap) mark(e *serviceEntry) {
	if !e.dirty {
		e.dirty = true
		m.dirty = append(m.dirty, e)
	}
}

func (m *ServiceMap) markAll() {
	m.allMarked = true
	for _, e := range m.services {
		m.mark(e)
	}
}

// ServiceSnapshot is a Service with its slices. It must not be changed.
type ServiceSnapshot struct {
	*Service
	Slices []EndpointSlice
}

// Snapshot lists all Services with their slices, unsorted. It is cheap because
// endpoints are not copied. Later events do not change it.
func (m *ServiceMap) Snapshot() []ServiceSnapshot {
	n := 0
	for _, e := range m.services {
		n += len(e.slices)
	}
	all, out := make([]EndpointSlice, 0, n), make([]ServiceSnapshot, 0, m.count)
	for _, e := range m.services {
		if e.service == nil {
			continue
		}
		from := len(all)
		all = append(all, e.slices...)
		out = append(out, ServiceSnapshot{e.service, all[from:len(all):len(all)]})
	}
	return out
}

// Maps keep the memory of their largest size. The memory of deleted Services must be
// freed.
const (
	minShrinkPeak = 4096 // smaller maps are not worth a copy
	shrinkFactor  = 8    // a map smaller than this fraction of its peak is copied
)

// Shrink returns the map, or a copy if it is much smaller than its largest size, which
// *peak holds and Shrink updates.
func Shrink[M ~map[K]V, K comparable, V any](m M, peak *int) M {
	*peak = max(*peak, len(m))
	if *peak < minShrinkPeak || len(m) > *peak/shrinkFactor {
		return m
	}
	out := make(M, len(m))
	maps.Copy(out, m)
	*peak = len(m)
	return out
}
