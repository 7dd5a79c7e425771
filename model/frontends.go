package model

// Frontends is what the node programs for one Service: its addresses and ports,
// each with the endpoints that policy and conditions leave for it. The slices are
// the Service's own.
func (o Options) Frontends(s *Service, from []Slice, n Node) []Frontend {
	var out []Frontend
	for _, f := range Families {
		for _, p := range s.Ports {
			out = append(out, o.portFrontends(s, p, f, from, n)...)
		}
	}
	return out
}

// portFrontends are the frontends of one port in one family.
func (o Options) portFrontends(s *Service, p ServicePort, f Family, from []Slice, n Node) []Frontend {
	var out []Frontend
	var sel Selection
	name := s.portName(p)
	for _, addr := range s.ClusterIPs {
		if FamilyOf(addr) != f {
			continue
		}
		if out == nil {
			sel = Select(name, f, from, n)
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
	if fe.Verdict != Balance {
		fe.Hairpin, fe.Endpoints = nil, nil
	}
	return fe
}
