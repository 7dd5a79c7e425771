package model

import (
	"cmp"
	"maps"
	"slices"
)

// Budget limits what Services make every node hold, in elements of the rule set. It
// protects against authors of Services, not against growth: ordinary clusters are far
// below it. Zero means unlimited.
type Budget struct {
	// PerNamespace is how many elements the Services of one namespace may have in
	// total. If they need more, the oldest ones are served as far as they fit.
	PerNamespace int
	// Total is how many elements all Services may have. If they need more, the largest
	// namespaces are cut down to the same share each; other namespaces are not affected.
	Total int
}

// OverBudget reports that a Service is not served because it is over the [Budget], or
// that it is served again.
type OverBudget struct {
	Service ServiceName
	// Weight is how many elements the Service needs; Limit is the limit of the Service,
	// or of its whole namespace. Both are zero if it is served again.
	Weight, Limit int
}

// The costs in elements; an endpoint is counted once, or as often as its weight needs.
const (
	// Each change of any Service costs the kernel a walk over all addresses and ports
	// (nft_table_validate), so they cost more than their elements.
	weightOfAddress        = 10
	weightOfSharedEndpoint = 4 // in a map of all Services, see MaxSlots
	// A table takes kilobytes, and an annotation of a few bytes is enough to request one.
	weightOfMaglevTable = 4 * MaglevTableSize
)

// MaxSlots is how many endpoints of a port have slots of their own (see package nft). If
// there are more, or with client affinity, they share one map, which the kernel lists at
// a cost of the square of its size: with a million endpoints that takes half a minute at
// each start.
const MaxSlots = 255

// measure returns how many elements the entry's Service needs.
func (e *serviceEntry) measure() (weight int) {
	if e.service == nil {
		return 0
	}
	s := e.service
	ports := len(s.Ports)
	weight = weightOfAddress * ports * (len(s.ClusterIPs) + len(s.ExternalIPs) + len(s.LoadBalancerIPs))
	for _, p := range s.Ports {
		if p.NodePort != 0 {
			weight += weightOfAddress * len(s.ClusterIPs)
		}
	}
	weight += s.RangeCount()
	if s.Scheduler == SchedulerMaglev { // if chosen by the Service, not by default
		weight += ports * len(s.ClusterIPs) * weightOfMaglevTable
	}
	endpoints := 0
	for i := range e.slices {
		endpoints += len(e.slices[i].Ports) * len(e.slices[i].Endpoints)
	}
	// Under PolicyLocal the endpoints of this node are in slots of their own, too. Their
	// author chooses which node that is.
	lists := 1
	if s.ExternalPolicy == PolicyLocal || s.InternalPolicy == PolicyLocal {
		lists = 2
	}
	if s.Scheduler == SchedulerLeastConnections { // if chosen by the Service, not by default
		weight += lists * min((SharesPerEndpoint-1)*endpoints, MaxSlots*ports*len(s.ClusterIPs))
	}
	slots := max(endpoints, e.weightedSlots())
	many := slots > MaxSlots*ports
	if s.SlowStart > 0 {
		many = FullStep*slots > MaxSlots*ports
		pools := ports * len(s.ClusterIPs)
		slots = min(FullStep*maxStartFactor*slots, minManySlots*pools+FullStep*endpoints,
			maxStartSlots*pools+FullStep*max(0, slots-maxStartSlots/FullStep))
	}
	switch {
	case s.Affinity > 0:
		return weight + (slots+endpoints)*weightOfSharedEndpoint
	case many:
		return weight + slots*weightOfSharedEndpoint
	}
	return weight + slots*lists + endpoints // one more for the connection to itself
}

// RangeCount returns how many source ranges all addresses and ports of the Service have together.
func (s *Service) RangeCount() int {
	n := len(s.Ports) * len(s.LoadBalancerIPs)
	if s.RangesForAll {
		n += len(s.Ports) * len(s.ExternalIPs)
		for _, p := range s.Ports {
			n += min(1, int(p.NodePort)) * len(s.ClusterIPs)
		}
	}
	return n * (len(s.SourceRanges) + len(s.DeniedRanges))
}

// weightedSlots returns the maximum number of slots that endpoints of different weights
// take, or zero if all weights are equal or all endpoints are in tables of
// [SchedulerMaglev].
func (e *serviceEntry) weightedSlots() int {
	if !e.slices.weighted() {
		return 0
	}
	var weights []uint16
	slots, endpoints := 0, 0
	for i := range e.slices {
		if n := len(e.slices[i].Ports) * len(e.slices[i].Endpoints); n > 0 {
			weights = append(weights, e.slices[i].weight())
			slots, endpoints = slots+n*int(weights[len(weights)-1]), endpoints+n
		}
	}
	p := Pool{Scheduler: e.service.Scheduler, Affinity: e.service.Affinity}
	if p.PicksOneOf(endpoints) == SchedulerMaglev {
		return 0
	}
	slots /= int(commonDivisor(weights))
	lists := len(e.service.Ports) * len(e.service.ClusterIPs)
	return min(slots, lists*minManySlots+endpoints*manySlotsPerEndpoint)
}

// budgetUsage is the weight of the Services by namespace and in total.
type budgetUsage struct {
	byNamespace map[string]int
	total       int
	// limited are the namespaces that are over the budget, with their limits.
	limited map[string]int
}

func (u *budgetUsage) add(namespace string, weight int) {
	u.total += weight
	if u.byNamespace[namespace] += weight; u.byNamespace[namespace] == 0 {
		delete(u.byNamespace, namespace)
	}
}

// limits returns the namespaces that are over the budget with their limits, if any.
func (u *budgetUsage) limits(b Budget) map[string]int {
	limit := b.PerNamespace
	if b.Total > 0 && u.total > b.Total {
		share := FairShare(b.Total, slices.Collect(maps.Values(u.byNamespace)))
		limit = min(share, cmp.Or(limit, share))
	}
	if limit == 0 || u.total <= limit {
		return nil
	}
	limits := map[string]int{}
	for namespace, weight := range u.byNamespace {
		if weight > limit {
			limits[namespace] = limit
		}
	}
	return limits
}

// FairShare returns the limit for each claimant that keeps the sum within the total. It
// sorts the list.
func FairShare(total int, wanted []int) (share int) {
	slices.Sort(wanted)
	for i, want := range wanted {
		if share = total / (len(wanted) - i); want > share {
			break
		}
		total -= want
	}
	return share
}

// updateBudget measures the entries that changed, and marks those that are now over
// the budget or within it again.
func (m *ServiceMap) updateBudget() {
	for _, e := range m.dirty {
		before := e.weight
		e.weight = e.measure()
		m.usage.add(e.name.Namespace, e.weight-before)
	}
	before := m.usage.limited
	m.usage.limited = m.usage.limits(m.options.Budget)
	affected := m.affectedNamespaces(before)
	for _, e := range m.dirty {
		if e.service == nil || !affected[e.name.Namespace] {
			m.setOverBudget(e, OverBudget{Service: e.name})
		}
	}
	m.admit(affected)
}

// affectedNamespaces returns the namespaces whose served Services must be chosen again:
// those whose limit changed, and those with a limit if one of their Services changed.
// Other namespaces cost nothing.
func (m *ServiceMap) affectedNamespaces(before map[string]int) map[string]bool {
	after := m.usage.limited
	affected := map[string]bool{}
	for _, e := range m.dirty {
		if _, limited := after[e.name.Namespace]; limited {
			affected[e.name.Namespace] = true
		}
	}
	for _, limits := range [...]map[string]int{before, after} {
		for namespace := range limits {
			if before[namespace] != after[namespace] {
				affected[namespace] = true
			}
		}
	}
	return affected
}

// admit decides which Services of the affected namespaces are served: the oldest
// first, as far as they fit.
func (m *ServiceMap) admit(affected map[string]bool) {
	if len(affected) == 0 {
		return
	}
	entries := map[string][]*serviceEntry{}
	for _, e := range m.services {
		if e.service != nil && affected[e.name.Namespace] {
			entries[e.name.Namespace] = append(entries[e.name.Namespace], e)
		}
	}
	for namespace, list := range entries {
		limit, limited := m.usage.limited[namespace]
		slices.SortFunc(list, func(a, b *serviceEntry) int { return a.service.compareAge(b.service) })
		used := 0
		for _, e := range list {
			over := OverBudget{Service: e.name}
			if limited && used+e.weight > limit {
				over = OverBudget{e.name, e.weight, limit}
			} else {
				used += e.weight
			}
			m.setOverBudget(e, over)
		}
	}
}

// setOverBudget records whether the entry is over the budget, and marks it if that
// changed.
func (m *ServiceMap) setOverBudget(e *serviceEntry, o OverBudget) {
	changed := (e.overBudget.Weight > 0) != (o.Weight > 0)
	e.overBudget = o
	if changed {
		m.mark(e)
		m.overBudget = append(m.overBudget, o)
	}
}
