package model

import (
	"maps"
	"slices"
)

// Budget limits what authors of Services can have every node hold, in elements of
// the rule set. A cluster of honest Services is far from it. Zero means no limit.
type Budget struct {
	// PerNamespace is how many elements the Services of one namespace may have together.
	// Where they want more, the older ones are served as far as they fit.
	PerNamespace int
	// Total is how many all Services may have. Where they want more, the namespaces
	// that have most get less, all of them the same: no other namespace is touched.
	Total int
	// AffinityEndpoints is how many endpoints, counted for each port, one Service may have that
	// remembers its clients.
	AffinityEndpoints int
}

// OverBudget is a Service that is not served because it is beyond the [Budget].
type OverBudget struct {
	Service ServiceName
	// Weight is how many elements the Service needs, Most how many it, or its namespace
	// in all, may have. Both are zero if it is served again.
	Weight, Limit int
}

// What things weigh in elements. An external address is more than what it has in
// the kernel, since each is kept with the policy that it has.
const (
	weightOfAddress  = 10
	weightOfEndpoint = 1
	weightOfMany     = 4                   // an endpoint of a Service with so many that they share one map
	weightOfSticky   = 100                 // an endpoint that remembers its clients is a chain
	weightOfTable    = 4 * MaglevTableSize // kilobytes that a word of an author asks for
)

// MaglevTableSize is how many slots the table of a port with the scheduler [SchedulerMaglev] has.
const MaglevTableSize = 251

// weigh returns how many elements the entry's Service needs, and how many of its
// endpoints remember clients.
func (e *entry) weigh() (weight, sticky int) {
	if e.service == nil {
		return 0, 0
	}
	s := e.service
	ports := len(s.Ports)
	weight = ports * (len(s.ClusterIPs) + weightOfAddress*(len(s.ExternalIPs)+len(s.LoadBalancerIPs)))
	weight += ports * len(s.LoadBalancerIPs) * len(s.SourceRanges)
	if s.Scheduler == SchedulerMaglev { // of its own; the default is the operator's choice
		weight += ports * len(s.ClusterIPs) * weightOfTable
	}
	offers := 0
	for i := range e.slices {
		offers += len(e.slices[i].Ports) * len(e.slices[i].Endpoints)
	}
	if s.Affinity > 0 {
		return weight + offers*weightOfSticky, offers
	}
	if offers > manyEndpoints*ports {
		return weight + offers*weightOfMany, 0
	}
	return weight + offers*weightOfEndpoint, 0
}

// manyEndpoints is how many endpoints of a port have slots of their own. More share one
// map, which the kernel lists at a cost of the square of its size: a million take half
// a minute at each start.
const manyEndpoints = 255

// spending is what the Services weigh, by namespace and in all.
type spending struct {
	by    map[string]int
	total int
	// short are the namespaces some of whose Services are not served, and how many
	// elements they may have.
	short map[string]int
}

// add adds to what a namespace spends.
func (s *spending) add(namespace string, weight int) {
	s.total += weight
	if s.by[namespace] += weight; s.by[namespace] == 0 {
		delete(s.by, namespace)
	}
}

// limits returns the namespaces that spend more than they may, and how much that is;
// nil if none does.
func (s *spending) limits(b Budget) map[string]int {
	most := b.PerNamespace
	if b.Total > 0 && s.total > b.Total {
		most = s.level(b)
	}
	if most == 0 || s.total <= most {
		return nil
	}
	limits := map[string]int{}
	for namespace, weight := range s.by {
		if weight > most {
			limits[namespace] = most
		}
	}
	return limits
}

// level is the most that each namespace may spend so that all keep within the total.
func (s *spending) level(b Budget) int {
	weights := slices.Sorted(maps.Values(s.by))
	left := b.Total
	for i, weight := range weights {
		share := left / (len(weights) - i)
		if b.PerNamespace > 0 && share >= b.PerNamespace {
			return b.PerNamespace
		}
		if weight > share {
			return share
		}
		left -= weight
	}
	return b.PerNamespace
}

// spend accounts for the entries that changed, and marks those of the same
// namespaces that are now within the budget or beyond it. Only where a namespace is
// beyond it are all Services looked at.
func (m *ServiceMap) spend() {
	for _, e := range m.dirty {
		before := e.weight
		e.weight, e.sticky = e.weigh()
		m.spending.add(e.name.Namespace, e.weight-before)
	}
	before := m.spending.short
	m.spending.short = m.spending.limits(m.options.Budget)
	m.admit(before)
}

// sticky is the excess of a Service that has too many endpoints which remember
// clients; zero if it has not.
func (b Budget) sticky(e *entry) OverBudget {
	if b.AffinityEndpoints > 0 && e.sticky > b.AffinityEndpoints {
		return OverBudget{e.name, e.sticky * weightOfSticky, b.AffinityEndpoints * weightOfSticky}
	}
	return OverBudget{Service: e.name}
}

// admit decides which Services are within the budget: those that changed, and all of
// a namespace that is or was beyond it, the oldest first, if one of its Services or
// what it may spend has changed. Other namespaces do not pay for it.
func (m *ServiceMap) admit(before map[string]int) {
	affected := map[string]bool{}
	for _, e := range m.dirty {
		namespace := e.name.Namespace
		_, was := before[namespace]
		_, is := m.spending.short[namespace]
		if was || is {
			affected[namespace] = true
		}
	}
	for _, limits := range [...]map[string]int{before, m.spending.short} {
		for namespace := range limits {
			if before[namespace] != m.spending.short[namespace] {
				affected[namespace] = true
			}
		}
	}
	for _, e := range m.dirty {
		if e.service == nil || !affected[e.name.Namespace] {
			m.setExcess(e, m.options.Budget.sticky(e))
		}
	}
	if len(affected) == 0 {
		return
	}
	of := map[string][]*entry{}
	for _, e := range m.services {
		if e.service != nil && affected[e.name.Namespace] {
			of[e.name.Namespace] = append(of[e.name.Namespace], e)
		}
	}
	for namespace, list := range of {
		most, short := m.spending.short[namespace]
		slices.SortFunc(list, func(a, b *entry) int { return a.service.compareAge(b.service) })
		spent := 0
		for _, e := range list {
			excess := m.options.Budget.sticky(e)
			switch {
			case excess.Weight > 0:
			case short && spent+e.weight > most:
				excess = OverBudget{e.name, e.weight, most}
			default:
				spent += e.weight
			}
			m.setExcess(e, excess)
		}
	}
}

// setExcess notes whether the entry is beyond the budget, and what of that is new.
func (m *ServiceMap) setExcess(e *entry, x OverBudget) {
	if e.excess == x {
		return
	}
	changed := (e.excess.Weight > 0) != (x.Weight > 0)
	e.excess = x
	if changed {
		m.mark(e)
		m.excesses = append(m.excesses, x)
	}
}
