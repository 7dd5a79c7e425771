package model

// HealthCheck is what load balancers want to know of a Service whose external
// policy is Local: how many endpoints this node has for it.
type HealthCheck struct {
	Service ServiceName
	UID     string // of the Service
	// Port is where they ask; zero if nowhere any more.
	Port uint16
	// Local counts the addresses of ready endpoints on this node. Those that
	// terminate do not count even while they still serve, so that new connections
	// go elsewhere. A family that the Service does not have repeats the count of the
	// one that it has: load balancers may ask at any address of the node.
	Local [len(Families)]int
}

// healthCheck is that of a Service. Without a health check node port, the port
// is zero and nothing is counted.
func healthCheck(s *Service, v *view) HealthCheck {
	h := HealthCheck{Service: s.Name, UID: s.UID, Port: s.HealthCheckNodePort}
	if h.Port == 0 {
		return h
	}
	for a := range v.hosted() {
		h.Local[FamilyOf(a)]++
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
