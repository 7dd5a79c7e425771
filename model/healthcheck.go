package model

import "net/netip"

// HealthCheck is the reply to health checks of load balancers for a Service whose
// external policy is Local: how many endpoints this node has for it.
type HealthCheck struct {
	Service ServiceName
	UID     string // of the Service
	// Port is the health check node port, or zero if it was removed.
	Port uint16
	// Local counts the addresses of ready endpoints on this node. Drained endpoints do not
	// count, nor do terminating ones even if they still serve, nor any if other nodes serve. With [PassiveChecksAvoid],
	// unresponsive ones do not count either, and new connections go to other nodes. A family
	// that the Service does not have repeats the count of the other one, because load
	// balancers may probe any address of the node.
	Local [len(Families)]int
}

// healthCheck returns the health check of a Service some of whose endpoints may be unresponsive.
// Without a health check node port, its port is zero and nothing is counted.
func (v *endpointView) healthCheck() HealthCheck {
	s := v.service
	if s == nil || s.HealthCheckNodePort == 0 {
		return HealthCheck{Service: v.name}
	}
	h := HealthCheck{Service: s.Name, UID: s.UID, Port: s.HealthCheckNodePort}
	if v.elsewhere {
		return h
	}
	missing := map[netip.Addr]bool{}
	for key := range v.overlays {
		for _, a := range v.unresponsive(key.pool) {
			missing[a.Addr()] = true
		}
	}
	for a := range v.localAddrs() {
		if !missing[a] {
			h.Local[FamilyOf(a)]++
		}
	}
	var has [len(Families)]bool
	for _, a := range s.ClusterIPs {
		has[FamilyOf(a)] = true
	}
	for _, f := range Families {
		if other := 1 - f; !has[f] && has[other] {
			h.Local[f] = h.Local[other]
		}
	}
	return h
}

// HealthCheckConflicts lists the health checks that load balancers do not reach, because their port is
// a node port, too: the API server prevents it, a folder of manifests does not. The losers have no
// port.
func (m *ServiceMap) HealthCheckConflicts() (out []Conflict) {
	for _, h := range m.HealthChecks() {
		for _, f := range Families {
			port := Match{Port: h.Port, Family: f, Protocol: TCP}
			if by := m.FrontendAt(port); by != nil {
				out = append(out, Conflict{port, by.Service, ServicePortName{ServiceName: h.Service}})
			}
		}
	}
	return out
}
