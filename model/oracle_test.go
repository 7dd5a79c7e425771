package model

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
)

// The oracle is a second implementation of the rules of this package, written as
// they are documented and without regard to speed. Histories and selections are
// compared with it.

// cluster is all objects of a cluster.
type cluster struct {
	options  Options
	node     Node
	services map[ServiceName]Service
	slices   map[EndpointSliceName]EndpointSlice
	// nodeAddrs serve node ports.
	nodeAddrs []netip.Addr
	// unresponsive are unresponsive endpoints, by pool.
	unresponsive map[Match][]netip.AddrPort
	// holdOver means that no connection is held any longer.
	holdOver bool
}

// expectation is the expected state of a cluster.
type expectation struct {
	winners   map[Match]Frontend
	lost      map[Conflict]struct{}
	health    map[ServiceName]HealthCheck
	notLocal  NoLocalEndpoints
	elsewhere map[Match]ServicePortName // which other nodes serve
}

// oracle returns the expected state. Older claims come first, and external addresses
// after all ClusterIPs, external IPs last: a port that lost its ClusterIP has none.
func (c *cluster) oracle() expectation {
	b := expectation{
		map[Match]Frontend{}, map[Conflict]struct{}{}, map[ServiceName]HealthCheck{}, NoLocalEndpoints{}, map[Match]ServicePortName{},
	}
	var external []Frontend
	for _, s := range slices.SortedFunc(maps.Values(c.services), oracleOlder) {
		for _, f := range Families {
			for _, port := range s.Ports {
				all := c.oracleFrontends(s, port, f)
				if len(all) == 0 {
					continue
				}
				b.count(all, f)
				if b.claim(all[0], nil) {
					external = append(external, all[1:]...)
				}
			}
		}
	}
	slices.SortStableFunc(external, func(a, b Frontend) int {
		return cmp.Or(trueFirst(a.Kind == KindNodePort, b.Kind == KindNodePort), trueFirst(a.Kind != KindExternalIP, b.Kind != KindExternalIP))
	})
	for _, fe := range external {
		b.claim(fe, c.nodeAddrs)
	}
	maps.DeleteFunc(b.winners, func(m Match, fe Frontend) bool {
		if fe.Verdict == VerdictElsewhere {
			b.elsewhere[m] = fe.Service
		}
		return fe.Verdict == VerdictElsewhere
	})
	missing := c.oracleAvoid(b.winners)
	for _, s := range c.services {
		if s.HealthCheckNodePort != 0 {
			b.health[s.Name] = c.oracleHealth(s, missing[s.Name])
		}
	}
	return b
}

// claim gives the frontend its match, unless another one has it, or a node port has
// the port on that address of the node. It reports whether it did.
func (b *expectation) claim(fe Frontend, nodeAddrs []netip.Addr) bool {
	winner, taken := b.winners[fe.Match]
	if slices.Contains(nodeAddrs, fe.Match.Addr) && !(taken && winner.Kind == KindClusterIP) {
		if port, serves := b.winners[fe.Match.atNodePort()]; serves {
			winner, taken = port, true
		}
	}
	if !taken {
		b.winners[fe.Match] = fe
		return true
	}
	if winner.Service != fe.Service {
		b.lost[Conflict{fe.Match, winner.Service, fe.Service}] = struct{}{}
	}
	return false
}

// count counts one port in NoLocalEndpoints: once for internal traffic, and once for
// external.
func (b *expectation) count(all []Frontend, f Family) {
	if all[0].Verdict == VerdictDrop {
		b.notLocal.Internal[f]++
	}
	if len(all) > 1 && all[1].Verdict == VerdictDrop {
		b.notLocal.External[f]++
	}
}

// oracleOlder compares Services by age.
func oracleOlder(a, b Service) int {
	return cmp.Or(
		cmp.Compare(a.Created, b.Created),
		cmp.Compare(a.Name.Namespace, b.Name.Namespace),
		cmp.Compare(a.Name.Name, b.Name.Name),
	)
}

// oracleFrontends returns the frontends of a Service's port in a family, the ClusterIP
// first. Without a ClusterIP, it returns nothing.
func (c *cluster) oracleFrontends(s Service, p ServicePort, f Family) []Frontend {
	clusterIPs := ofFamily(f, s.ClusterIPs)
	if len(clusterIPs) == 0 {
		return nil
	}
	name := ServicePortName{s.Name, p.Name, p.Protocol}
	at := func(a netip.Addr) Match { return Match{Family: f, Addr: a, Protocol: p.Protocol, Port: p.Port} }
	out := []Frontend{{
		Match: at(clusterIPs[0]), Kind: KindClusterIP, Service: name,
		Policy: s.InternalPolicy, Masquerade: c.oracleMasquerade(f),
	}}
	add := func(k Kind, m Match) {
		fe := Frontend{Match: m, Kind: k, Service: name, Policy: s.ExternalPolicy, Masquerade: MasqueradeAlways}
		if s.ExternalPolicy == PolicyLocal {
			fe.Masquerade = MasqueradeNever
		}
		if (k == KindLoadBalancerIP || s.RangesForAll) && c.oracleSelects(s) {
			own := map[Kind][]netip.Addr{
				KindLoadBalancerIP: s.LoadBalancerIPs, KindExternalIP: s.ExternalIPs,
				KindNodePort: slices.SortedFunc(slices.Values(c.nodeAddrs), netip.Addr.Compare),
			}
			fe.Sources, fe.Denied, fe.Restricted = c.oracleSources(s, f, own[k])
		}
		out = append(out, fe)
	}
	if p.NodePort != 0 {
		add(KindNodePort, Match{Family: f, Protocol: p.Protocol, Port: p.NodePort})
	}
	resolveCandidates := []netip.Addr{clusterIPs[0]}
	addAll := func(k Kind, addrs []netip.Addr) {
		for _, a := range ofFamily(f, addrs) {
			if !slices.Contains(resolveCandidates, a) {
				resolveCandidates = append(resolveCandidates, a)
				add(k, at(a))
			}
		}
	}
	addAll(KindLoadBalancerIP, s.LoadBalancerIPs)
	if !c.options.IgnoreExternalIPs {
		addAll(KindExternalIP, s.ExternalIPs)
	}
	c.oracleSetPools(s, f, out)
	return out
}

// oracleEqual reports whether the reported frontend is still as it was reported. The
// owner of a pool reports all of it; the others its numbers of endpoints and how it
// treats clients.
func oracleEqual(reported, is Frontend) bool {
	if is.Kind != KindClusterIP {
		for _, f := range []*Frontend{&reported, &is} {
			p := *f.Pool
			p.Cluster, p.Local = make([]netip.AddrPort, p.Slots(false)), make([]netip.AddrPort, p.Slots(true))
			p.ClusterWeights, p.LocalWeights, p.ClusterShares, p.LocalShares = nil, nil, nil, nil
			p.Hairpin, p.PassiveChecks, p.Avoided, p.StandBy = nil, 0, nil, nil
			f.Pool = &p
		}
	}
	return reflect.DeepEqual(reported, is)
}

// oracleSetPools sets the pool and verdicts of the frontends of one port.
func (c *cluster) oracleSetPools(s Service, f Family, of []Frontend) {
	got := oracleSelect(of[0].Service, f, c.slicesOf(s.Name), c.node, c.oracleUnresponsive(s, of[0].Match), s.Hold > 0)
	pool := &Pool{
		Key: of[0].Match, Hold: s.Hold, ScaleToZero: s.ScaleToZero, Hairpin: got.hairpin,
		Affinity: AffinityTimeout(s.Affinity), Scheduler: s.Scheduler, PassiveChecks: s.PassiveChecks, Avoided: got.avoided,
	}
	if pool.PassiveChecks == PassiveChecksDefault {
		pool.PassiveChecks = c.options.PassiveChecks
	}
	if pool.PassiveChecks == PassiveChecksOff {
		pool.PassiveChecks = 0
	}
	if pool.PassiveChecks != 0 {
		pool.StandBy = got.standBy
	}
	protocol := of[0].Match.Protocol
	pool.RetryRefused = protocol == TCP && (s.RetryRefused || s.Hold > 0)
	if protocol == UDP || protocol == TCP && c.options.TCPFlowEndpoints || s.Hold > 0 || pool.RetryRefused {
		pool.FlowEndpoints = got.flows
	}
	if pool.Scheduler == SchedulerDefault {
		pool.Scheduler = c.options.Scheduler
	}
	if pool.Scheduler == SchedulerDefault {
		pool.Scheduler = SchedulerRandom
	}
	external := len(of) > 1 && c.oracleSelects(s)
	if s.InternalPolicy != PolicyLocal || external {
		pool.Cluster, pool.ClusterWeights = got.cluster, got.clusterWeights
		pool.ClusterShares = pool.sharesFor(got.clusterWeights)
	}
	if s.InternalPolicy == PolicyLocal || s.ExternalPolicy == PolicyLocal && external {
		pool.Local, pool.LocalWeights = got.local, got.localWeights
		pool.LocalShares = pool.sharesFor(got.localWeights)
	}
	for i := range of {
		endpoints := got.cluster
		if of[i].Policy == PolicyLocal {
			endpoints = got.local
		}
		switch {
		case i > 0 && !c.oracleSelects(s):
			of[i].Verdict = VerdictElsewhere
		case len(endpoints) > 0:
			of[i].Verdict = VerdictBalance
		case got.anyUsable:
			of[i].Verdict = VerdictDrop
		case s.Hold > 0 && !c.holdOver:
			of[i].Verdict = VerdictHold
		default:
			of[i].Verdict = VerdictReject
		}
		of[i].Pool = pool
	}
}

// oracleSelects reports whether the node serves the external addresses of the Service.
func (c *cluster) oracleSelects(s Service) bool {
	labels := strings.Split(string(c.node.Labels), ",")
	for _, t := range s.Nodes {
		has := slices.ContainsFunc(labels, func(l string) bool { return t.Labels.Has(l) })
		if has && t.Not || !has && !t.Not {
			return false
		}
	}
	return true
}

// slicesOf lists the slices of a Service, unsorted.
func (c *cluster) slicesOf(name ServiceName) []EndpointSlice {
	return slices.DeleteFunc(slices.Collect(maps.Values(c.slices)), func(s EndpointSlice) bool { return s.Service != name })
}

// oracleMasquerade returns the masquerading of connections to a ClusterIP.
func (c *cluster) oracleMasquerade(f Family) Masquerade {
	switch {
	case c.options.MasqueradeAll:
		return MasqueradeAlways
	case c.options.DetectsPods[f]:
		return MasqueradeOffPod
	}
	return MasqueradeNever
}

// oracleSources returns who may use addresses of a Service in a family, and who of them may not. The
// node itself may have these addresses.
func (c *cluster) oracleSources(s Service, f Family, own []netip.Addr) (sources, denied []netip.Prefix, restricted bool) {
	of := func(list []netip.Prefix) (out []netip.Prefix) {
		for _, r := range list {
			if r.Addr().Is4() == (f == IPv4) {
				out = append(out, r.Masked())
			}
		}
		return out
	}
	withOwn := func(list []netip.Prefix) []netip.Prefix {
		if slices.ContainsFunc(list, func(r netip.Prefix) bool { return r.Contains(c.node.Addrs[f]) }) {
			for _, a := range ofFamily(f, own) {
				list = append(list, netip.PrefixFrom(a, a.BitLen()))
			}
		}
		return list
	}
	isAll := func(r netip.Prefix) bool { return r.Bits() == 0 }
	switch allowed := of(s.SourceRanges); {
	case slices.ContainsFunc(allowed, isAll):
	case len(allowed) > 0:
		sources, restricted = withOwn(allowed), true
	default:
		restricted = c.options.StrictSourceRanges && len(s.SourceRanges) > 0 && !slices.ContainsFunc(s.SourceRanges, isAll)
	}
	if denied = of(s.DeniedRanges); len(denied) > 0 && !restricted {
		all := [...]string{IPv4: "0.0.0.0/0", IPv6: "::/0"}
		sources, restricted = []netip.Prefix{netip.MustParsePrefix(all[f])}, true
	}
	return sources, withOwn(denied), restricted
}

// oracleUnresponsive returns the unresponsive endpoints that the Service's pool avoids.
func (c *cluster) oracleUnresponsive(s Service, key Match) []netip.AddrPort {
	if cmp.Or(s.PassiveChecks, c.options.PassiveChecks) == PassiveChecksAvoid {
		return c.unresponsive[key]
	}
	return nil
}

// oracleStandsBy reports whether no port of the Service uses the slice because of its priority.
func (c *cluster) oracleStandsBy(s Service, slice EndpointSlice) bool {
	used := len(s.Ports) == 0 || len(s.ClusterIPs) == 0
	for _, p := range s.Ports {
		for _, f := range Families {
			for _, ip := range ofFamily(f, s.ClusterIPs)[:min(1, len(ofFamily(f, s.ClusterIPs)))] {
				unresponsive := c.oracleUnresponsive(s, Match{Family: f, Addr: ip, Protocol: p.Protocol, Port: p.Port})
				active := oracleActive(ServicePortName{s.Name, p.Name, p.Protocol}, f, c.slicesOf(s.Name), unresponsive)
				used = used || slices.ContainsFunc(active, func(a EndpointSlice) bool { return a.Name == slice.Name })
			}
		}
	}
	return !used
}

// oracleHealth returns the health check of the Service; some of its endpoints are missing.
func (c *cluster) oracleHealth(s Service, missing map[netip.Addr]bool) HealthCheck {
	h := HealthCheck{Service: s.Name, Port: s.HealthCheckNodePort}
	if !c.oracleSelects(s) {
		return h
	}
	counted := map[netip.Addr]bool{}
	for _, slice := range c.slicesOf(s.Name) {
		if c.oracleStandsBy(s, slice) {
			continue
		}
		for _, e := range slice.Endpoints {
			if e.Ready && !slice.Drained && e.Node != "" && e.Node == c.node.Name && !counted[e.Addr] && !missing[e.Addr] {
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

// ofFamily returns the addresses of one family.
func ofFamily(f Family, addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return a.Is4() != (f == IPv4) })
}
