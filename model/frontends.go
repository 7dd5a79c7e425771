package model

import (
	"cmp"
	"net/netip"
	"slices"
)

// frontendsOf is what the node programs for one Service: its addresses and ports,
// each with the endpoints that policy and conditions leave for it. Those of one
// port and family stand together, the ClusterIP first. The slices are the
// Service's own.
func (o Options) frontendsOf(s *Service, from []EndpointSlice, n Node) []Frontend {
	return o.frontends(s, &view{slices: from, node: &n})
}

// frontends are those of a Service by what is seen of its endpoints.
func (o Options) frontends(s *Service, v *view) []Frontend {
	out := make([]Frontend, 0, len(s.ClusterIPs)*len(s.Ports))
	for _, f := range Families {
		i := slices.IndexFunc(s.ClusterIPs, func(a netip.Addr) bool { return FamilyOf(a) == f })
		if i < 0 {
			continue // without a ClusterIP the Service does not exist in the family
		}
		externals := o.externalAddrs(s, s.ClusterIPs[i])
		for _, p := range s.Ports {
			p := port{s, p, Match{f, s.ClusterIPs[i], p.Protocol, p.Port}, externals}
			out = o.appendPort(out, p, v)
		}
	}
	return out
}

// port is one port of a Service in one family.
type port struct {
	*Service
	ServicePort
	key       Match // of its pool
	externals []externalAddr
}

// externalAddr is an address of a Service beside its ClusterIP.
type externalAddr struct {
	kind Kind
	addr netip.Addr
}

// externalAddrs lists the Service's addresses of the ClusterIP's family, each once,
// as the kind that fewest may write.
func (o Options) externalAddrs(s *Service, clusterIP netip.Addr) []externalAddr {
	if len(s.LoadBalancerIPs) == 0 && len(s.ExternalIPs) == 0 {
		return nil
	}
	var out []externalAddr
	listed := map[netip.Addr]struct{}{clusterIP: {}}
	add := func(kind Kind, addrs []netip.Addr) {
		for _, a := range addrs {
			if _, twice := listed[a]; twice || FamilyOf(a) != FamilyOf(clusterIP) {
				continue
			}
			listed[a] = struct{}{}
			out = append(out, externalAddr{kind, a})
		}
	}
	add(KindLoadBalancerIP, s.LoadBalancerIPs)
	if !o.IgnoreExternalIPs {
		add(KindExternalIP, s.ExternalIPs)
	}
	return out
}

// name is the full name of the port.
func (p *port) name() ServicePortName { return p.portName(p.ServicePort) }

// at is the match of the port at another address.
func (p *port) at(a netip.Addr) Match { return Match{p.key.Family, a, p.key.Protocol, p.key.Port} }

// outside lists the port's frontends for traffic from outside.
func (p *port) outside() []Frontend {
	var out []Frontend
	add := func(k Kind, m Match) {
		out = append(out, Frontend{Match: m, Kind: k, Service: p.name(), Policy: p.ExternalPolicy})
	}
	if p.NodePort != 0 {
		add(KindNodePort, Match{Family: p.key.Family, Protocol: p.Protocol, Port: p.NodePort})
	}
	for _, e := range p.externals {
		add(e.kind, p.at(e.addr))
	}
	return out
}

// appendPort adds the frontends of one port.
func (o Options) appendPort(out []Frontend, p port, v *view) []Frontend {
	outside := p.outside()
	sel := o.selection(&p, v)
	pool := o.pool(&p, sel, len(outside) > 0)
	inside := Frontend{
		Match: p.key, Kind: KindClusterIP, Service: p.name(), Policy: p.InternalPolicy,
		Masquerade: o.clusterIPMasquerade(p.key.Family), Pool: pool,
	}
	inside.Verdict = verdict(pool.list(inside.Policy), sel)
	out = append(out, inside)
	for _, f := range outside {
		f.Pool = pool
		f.Verdict = verdict(pool.list(f.Policy), sel)
		if f.Policy == PolicyCluster {
			f.Masquerade = MasqueradeAlways
		}
		if f.Kind == KindLoadBalancerIP {
			f.Sources, f.Restricted = o.sources(p.Service, f.Match.Family, v.node)
		}
		out = append(out, f)
	}
	return out
}

// selection chooses the port's endpoints.
func (o Options) selection(p *port, v *view) selectedEndpoints {
	flows := p.Protocol == UDP || p.Protocol == TCP && o.TCPFlowEndpoints
	return v.selection(offer{p.ServicePort.Name, p.Protocol, p.key.Family}, flows)
}

// pool is what stands behind the port: the endpoints of those policies that some
// frontend has. Beside a Local policy for traffic from outside, pods and the
// node use all endpoints.
func (o Options) pool(p *port, sel selectedEndpoints, external bool) *Pool {
	pool := &Pool{
		Key: p.key, UID: p.UID, Hairpin: sel.OnNode, FlowEndpoints: sel.Flows,
		Affinity: p.Affinity, Scheduler: cmp.Or(p.Scheduler, o.Scheduler, SchedulerRandom),
	}
	if external || p.InternalPolicy == PolicyCluster {
		pool.Cluster = sel.Cluster
	}
	if p.InternalPolicy == PolicyLocal || external && p.ExternalPolicy == PolicyLocal {
		pool.Local = sel.Local
	}
	return pool
}

// verdict is what happens to those who may use these endpoints only.
func verdict(endpoints []netip.AddrPort, sel selectedEndpoints) Verdict {
	switch {
	case len(endpoints) > 0:
		return VerdictBalance
	case sel.hasAny:
		return VerdictDrop
	}
	return VerdictReject
}

// sources are the prefixes that may use the Service's load balancer addresses of
// a family, and whether there is such a limit. One that allows everybody is none.
//
// A node that connects to an address which is its own uses that address as its
// source; so where the node may connect, the addresses themselves may.
func (o Options) sources(s *Service, f Family, n *Node) (sources []netip.Prefix, limited bool) {
	for _, p := range s.SourceRanges {
		switch {
		case FamilyOf(p.Addr()) != f:
		case p.Bits() == 0:
			return nil, false
		default:
			sources = append(sources, p.Masked())
		}
	}
	if len(sources) == 0 {
		everyone := slices.ContainsFunc(s.SourceRanges, func(p netip.Prefix) bool { return p.Bits() == 0 })
		return nil, o.StrictSourceRanges && len(s.SourceRanges) > 0 && !everyone
	}
	own := n.Addrs[f]
	if own.IsValid() && slices.ContainsFunc(sources, func(p netip.Prefix) bool { return p.Contains(own) }) {
		for _, a := range s.LoadBalancerIPs {
			if FamilyOf(a) == f {
				sources = append(sources, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	return sources, true
}
