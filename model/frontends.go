package model

// Frontends is what the node programs for one Service: its addresses and ports,
// each with the endpoints that policy and conditions leave for it. The slices are
// the Service's own.
func (o Options) Frontends(s *Service, from []Slice, n Node) []Frontend {
	out := make([]Frontend, 0, len(s.ClusterIPs)*len(s.Ports))
	for _, f := range Families {
		for _, p := range s.Ports {
			out = o.appendPort(out, s, p, f, from, n)
		}
	}
	return out
}

// appendPort adds the frontends of one port in one family.
func (o Options) appendPort(out []Frontend, s *Service, p ServicePort, f Family, from []Slice, n Node) []Frontend {
	var sel Selection
	selected := false
	name := s.portName(p)
	for _, addr := range s.ClusterIPs {
		if FamilyOf(addr) != f {
			continue
		}
		if !selected {
			sel, selected = Select(name, f, from, n), true
		}
		out = append(out, o.clusterIPFrontend(Match{f, addr, p.Protocol, p.Port}, name, s.InternalPolicy, sel))
	}
	return out
}

// clusterIPFrontend treats traffic from inside the cluster: the internal policy
// chooses the endpoints (KEP-2086).
func (o Options) clusterIPFrontend(m Match, name ServicePortName, policy TrafficPolicy, sel Selection) Frontend {
	fe := Frontend{
		Match:      m,
		Kind:       ClusterIP,
		Service:    name,
		Endpoints:  sel.Cluster,
		Masquerade: o.clusterIPMasquerade(m.Family),
		Hairpin:    sel.OnNode,
	}
	if policy == PolicyLocal {
		fe.Endpoints = sel.Local
	}
	switch {
	case len(fe.Endpoints) > 0:
		fe.Verdict = Balance
	case sel.Anywhere:
		fe.Verdict = Drop
	default:
		fe.Verdict = Reject
	}
	return fe
}
