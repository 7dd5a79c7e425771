package model

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"
)

// The oracle: what the whole cluster comes to, worked out word for word as the
// rules are written down, with no thought of speed. The histories and Select are
// held against it.

// cluster is every object there is.
type cluster struct {
	options  Options
	node     Node
	services map[ServiceName]Service
	slices   map[EndpointSliceName]EndpointSlice
	// nodeAddrs serve node ports.
	nodeAddrs []netip.Addr
}

// book is what the rules make of a cluster.
type book struct {
	held     map[Match]Frontend // who holds each match
	lost     map[Conflict]struct{}
	health   map[ServiceName]HealthCheck
	notLocal NoLocalEndpoints
}

// byTheBook works it out. Those with the older claim come first, and addresses
// from outside after all ClusterIPs, external ones last: a port that lost its ClusterIP
// has none.
func (c *cluster) byTheBook() book {
	b := book{map[Match]Frontend{}, map[Conflict]struct{}{}, map[ServiceName]HealthCheck{}, NoLocalEndpoints{}}
	var outside []Frontend
	for _, s := range slices.SortedFunc(maps.Values(c.services), olderByTheBook) {
		if s.HealthCheckNodePort != 0 {
			b.health[s.Name] = c.healthByTheBook(s)
		}
		for _, f := range Families {
			for _, port := range s.Ports {
				all := c.frontendsByTheBook(s, port, f)
				if len(all) == 0 {
					continue
				}
				b.count(all, f)
				if b.claim(all[0], nil) {
					outside = append(outside, all[1:]...)
				}
			}
		}
	}
	slices.SortStableFunc(outside, func(a, b Frontend) int {
		return cmp.Or(trueFirst(a.Kind == KindNodePort, b.Kind == KindNodePort), trueFirst(a.Kind != KindExternalIP, b.Kind != KindExternalIP))
	})
	for _, fe := range outside {
		b.claim(fe, c.nodeAddrs)
	}
	return b
}

// claim gives the frontend its match, unless another one has it, or has the port on
// that address of the node.
func (b *book) claim(fe Frontend, nodeAddrs []netip.Addr) bool {
	winner, taken := b.held[fe.Match]
	if slices.Contains(nodeAddrs, fe.Match.Addr) && !(taken && winner.Kind == KindClusterIP) {
		if port, serves := b.held[fe.Match.atNodePort()]; serves {
			winner, taken = port, true
		}
	}
	if !taken {
		b.held[fe.Match] = fe
		return true
	}
	if winner.Service != fe.Service {
		b.lost[Conflict{fe.Match, winner.Service, fe.Service}] = struct{}{}
	}
	return false
}

// add counts the frontends of one port in NotLocal: once for inside, and once
// for outside.
func (b *book) count(all []Frontend, f Family) {
	if all[0].Verdict == VerdictDrop {
		b.notLocal.Internal[f]++
	}
	if len(all) > 1 && all[1].Verdict == VerdictDrop {
		b.notLocal.External[f]++
	}
}

// olderByTheBook compares Services by age.
func olderByTheBook(a, b Service) int {
	return cmp.Or(
		cmp.Compare(a.Created, b.Created),
		cmp.Compare(a.Name.Namespace, b.Name.Namespace),
		cmp.Compare(a.Name.Name, b.Name.Name),
	)
}

// frontendsByTheBook are those of a Service's port in a family, that of the
// ClusterIP first; none if there is none.
func (c *cluster) frontendsByTheBook(s Service, p ServicePort, f Family) []Frontend {
	clusterIPs := ofFamily(f, s.ClusterIPs)
	if len(clusterIPs) == 0 {
		return nil
	}
	name := ServicePortName{s.Name, p.Name, p.Protocol}
	at := func(a netip.Addr) Match { return Match{Family: f, Addr: a, Protocol: p.Protocol, Port: p.Port} }
	out := []Frontend{{
		Match: at(clusterIPs[0]), Kind: KindClusterIP, Service: name,
		Policy: s.InternalPolicy, Masquerade: c.masqueradeByTheBook(f),
	}}
	add := func(k Kind, m Match) {
		fe := Frontend{Match: m, Kind: k, Service: name, Policy: s.ExternalPolicy, Masquerade: MasqueradeAlways}
		if s.ExternalPolicy == PolicyLocal {
			fe.Masquerade = MasqueradeNever
		}
		if k == KindLoadBalancerIP {
			fe.Sources, fe.Restricted = c.sourcesByTheBook(s, f)
		}
		out = append(out, fe)
	}
	if p.NodePort != 0 {
		add(KindNodePort, Match{Family: f, Protocol: p.Protocol, Port: p.NodePort})
	}
	listed := []netip.Addr{clusterIPs[0]}
	addAll := func(k Kind, addrs []netip.Addr) {
		for _, a := range ofFamily(f, addrs) {
			if !slices.Contains(listed, a) {
				listed = append(listed, a)
				add(k, at(a))
			}
		}
	}
	addAll(KindLoadBalancerIP, s.LoadBalancerIPs)
	if !c.options.IgnoreExternalIPs {
		addAll(KindExternalIP, s.ExternalIPs)
	}
	c.poolByTheBook(s, f, out)
	return out
}

// sameByTheBook reports whether what was said last of a frontend still holds. Of
// the pool, the owner knows everything, and the others how many endpoints it
// has, and how it treats clients.
func sameByTheBook(said, is Frontend) bool {
	if is.Kind != KindClusterIP {
		for _, f := range []*Frontend{&said, &is} {
			p := *f.Pool
			p.Cluster, p.Local = make([]netip.AddrPort, len(p.Cluster)), make([]netip.AddrPort, len(p.Local))
			p.Hairpin, p.Affinity = nil, min(p.Affinity, 1)
			f.Pool = &p
		}
	}
	return reflect.DeepEqual(said, is)
}

// poolByTheBook gives the frontends of one port their pool and verdicts.
func (c *cluster) poolByTheBook(s Service, f Family, of []Frontend) {
	got := selectByTheBook(of[0].Service, f, c.slicesOf(s.Name), c.node)
	pool := &Pool{
		Key: of[0].Match, Hairpin: got.hairpin,
		Affinity: s.Affinity, Scheduler: s.Scheduler,
	}
	if protocol := of[0].Match.Protocol; protocol == UDP || protocol == TCP && c.options.TCPFlowEndpoints {
		pool.FlowEndpoints = got.flows
	}
	if pool.Scheduler == SchedulerDefault {
		pool.Scheduler = c.options.Scheduler
	}
	if pool.Scheduler == SchedulerDefault {
		pool.Scheduler = SchedulerRandom
	}
	outside := len(of) > 1
	if s.InternalPolicy != PolicyLocal || outside {
		pool.Cluster = got.cluster
	}
	if s.InternalPolicy == PolicyLocal || s.ExternalPolicy == PolicyLocal && outside {
		pool.Local = got.local
	}
	for i := range of {
		endpoints := got.cluster
		if of[i].Policy == PolicyLocal {
			endpoints = got.local
		}
		switch {
		case len(endpoints) > 0:
			of[i].Verdict = VerdictBalance
		case got.anyUsable:
			of[i].Verdict = VerdictDrop
		default:
			of[i].Verdict = VerdictReject
		}
		of[i].Pool = pool
	}
}

// slicesOf lists the slices of a Service, in no order.
func (c *cluster) slicesOf(name ServiceName) []EndpointSlice {
	return slices.DeleteFunc(slices.Collect(maps.Values(c.slices)), func(s EndpointSlice) bool { return s.Service != name })
}

// masqueradeByTheBook is whom the node masquerades on the way to a ClusterIP.
func (c *cluster) masqueradeByTheBook(f Family) Masquerade {
	switch {
	case c.options.MasqueradeAll:
		return MasqueradeAlways
	case c.options.DetectsPods[f]:
		return MasqueradeOffPod
	}
	return MasqueradeNever
}

// sourcesByTheBook is who may use the Service's load balancer IPs in a family.
func (c *cluster) sourcesByTheBook(s Service, f Family) (sources []netip.Prefix, restricted bool) {
	nodeMay := false
	for _, r := range s.SourceRanges {
		if r.Addr().Is4() != (f == IPv4) {
			continue
		}
		if r.Bits() == 0 {
			return nil, false
		}
		sources = append(sources, r.Masked())
		nodeMay = nodeMay || r.Contains(c.node.Addrs[f])
	}
	if sources == nil {
		everyone := slices.ContainsFunc(s.SourceRanges, func(p netip.Prefix) bool { return p.Bits() == 0 })
		return nil, c.options.StrictSourceRanges && len(s.SourceRanges) > 0 && !everyone
	}
	if nodeMay {
		for _, a := range ofFamily(f, s.LoadBalancerIPs) {
			sources = append(sources, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return sources, true
}

// healthByTheBook is what load balancers are told of the Service.
func (c *cluster) healthByTheBook(s Service) HealthCheck {
	h := HealthCheck{Service: s.Name, Port: s.HealthCheckNodePort}
	counted := map[netip.Addr]bool{}
	for _, slice := range c.slicesOf(s.Name) {
		for _, e := range slice.Endpoints {
			if e.Ready && e.Node != "" && e.Node == c.node.Name && !counted[e.Addr] {
				counted[e.Addr] = true
				h.Local[slice.Family]++
			}
		}
	}
	for _, f := range Families {
		if len(ofFamily(f, s.ClusterIPs)) == 0 && len(s.ClusterIPs) > 0 {
			h.Local[f] = h.Local[1-f]
		}
	}
	return h
}

// ofFamily are the addresses of one family.
func ofFamily(f Family, addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return a.Is4() != (f == IPv4) })
}
