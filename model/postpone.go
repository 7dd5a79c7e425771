package model

import "slices"

// ChangesExcept is [ServiceMap.Changes] without the changes of postponed namespaces, which
// later calls compute. Changes of the node and the options, which concern all, are never
// postponed.
//
// No address waits for another namespace: a deleted Service is removed. A Service that
// gives up an address, or was created again, is not served until its namespace is no
// longer postponed. Its addresses are then assigned as if it did not exist.
func (m *ServiceMap) ChangesExcept(waits func(namespace string) bool) Changes {
	later := m.takePostponed(waits)
	work := m.work()
	m.updateBudget()
	for namespace, more := range m.work() {
		work[namespace] += more
	}
	out := m.changes()
	for _, e := range later {
		m.mark(e)
		if name := e.name.Namespace; !slices.Contains(out.Postponed, name) {
			out.Postponed = append(out.Postponed, name)
		}
	}
	if !m.allMarked {
		out.Work = work
	}
	m.allMarked = false
	return out
}

// takePostponed removes the entries that can be postponed from the changed ones, and returns
// those that must be computed again later.
func (m *ServiceMap) takePostponed(waits func(namespace string) bool) (later []*serviceEntry) {
	now := m.dirty[:0]
	for _, e := range m.dirty {
		e.withdrawn = false
		if e.service != nil && !m.allMarked && waits(e.name.Namespace) {
			later = append(later, e)
			if !e.givesUpAddress() {
				e.dirty = false
				continue
			}
			e.withdrawn = true
		}
		now = append(now, e)
	}
	clear(m.dirty[len(now):])
	m.dirty = now
	return later
}

// work returns an estimate of the work for the changed entries by namespace, in elements.
func (m *ServiceMap) work() map[string]int {
	work := map[string]int{}
	for _, e := range m.dirty {
		work[e.name.Namespace] += 1 + e.weight
	}
	return work
}

// givesUpAddress reports whether the entry claims an address and port that its Service no
// longer has, or no longer claims by the same age.
func (e *serviceEntry) givesUpAddress() bool {
	before, after := e.builtFrom, e.service
	if len(e.frontends) == 0 || before == after {
		return false
	}
	type port struct {
		protocol       Protocol
		port, nodePort uint16
	}
	portsOf := func(s *Service) (all []port) {
		for _, p := range s.Ports {
			all = append(all, port{p.Protocol, p.Port, p.NodePort})
		}
		return all
	}
	return before.UID != after.UID || before.Created != after.Created ||
		before.HealthCheckNodePort != after.HealthCheckNodePort ||
		lacks(portsOf(after), portsOf(before)) || lacks(after.ClusterIPs, before.ClusterIPs) ||
		lacks(after.ExternalIPs, before.ExternalIPs) || lacks(after.LoadBalancerIPs, before.LoadBalancerIPs)
}

// lacks reports whether a list lacks something that was there before.
func lacks[T comparable](list, before []T) bool {
	if slices.Equal(list, before) {
		return false
	}
	has := make(map[T]struct{}, len(list))
	for _, x := range list {
		has[x] = struct{}{}
	}
	return slices.ContainsFunc(before, func(x T) bool { _, ok := has[x]; return !ok })
}
