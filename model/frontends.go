package model

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// frontends returns the frontends of one Service: its addresses and ports, each with the
// endpoints that policy and conditions leave. Frontends of one port and family are
// adjacent, the ClusterIP first.
func (o Options) frontends(s *Service, v *endpointView) []Frontend {
	out := make([]Frontend, 0, len(s.ClusterIPs)*len(s.Ports))
	for _, f := range Families {
		i := slices.IndexFunc(s.ClusterIPs, func(a netip.Addr) bool { return FamilyOf(a) == f })
		if i < 0 {
			continue // without a ClusterIP the Service does not exist in the family
		}
		externals := o.externalAddrs(s, s.ClusterIPs[i])
		for _, p := range s.Ports {
			p := familyPort{s, p, Match{s.ClusterIPs[i], p.Port, f, p.Protocol}, externals}
			out = o.appendPort(out, p, v)
		}
	}
	return out
}

// familyPort is one port of a Service in one family.
type familyPort struct {
	*Service
	ServicePort
	key       Match // of its pool
	externals []externalAddr
}

// externalAddr is an address of a Service besides its ClusterIP.
type externalAddr struct {
	kind Kind
	addr netip.Addr
}

// externalAddrs lists the Service's addresses of the ClusterIP's family, each once. An
// address that is listed as several kinds has the one that the fewest users may set.
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

// retries reports whether connections that an endpoint refuses are retried: clients of other protocols
// than TCP do not send again.
func (p *familyPort) retries() bool { return p.Protocol == TCP && (p.RetryRefused || p.Hold > 0) }

func (p *familyPort) name() ServicePortName { return p.portName(p.ServicePort) }

// externalFrontends lists the port's frontends for external traffic, without their
// endpoints.
func (p *familyPort) externalFrontends() []Frontend {
	var out []Frontend
	add := func(k Kind, m Match) {
		out = append(out, Frontend{Match: m, Kind: k, Service: p.name(), Policy: p.ExternalPolicy})
	}
	if p.NodePort != 0 {
		add(KindNodePort, Match{Family: p.key.Family, Protocol: p.Protocol, Port: p.NodePort})
	}
	for _, e := range p.externals {
		add(e.kind, Match{e.addr, p.key.Port, p.key.Family, p.key.Protocol})
	}
	return out
}

func (o Options) appendPort(out []Frontend, p familyPort, v *endpointView) []Frontend {
	externals := p.externalFrontends()
	held := p.Hold > 0
	n := needs{flows: p.Protocol == UDP || p.Protocol == TCP && o.TCPFlowEndpoints || held || p.retries(), held: held}
	var unresponsive []netip.AddrPort
	if cmp.Or(p.PassiveChecks, o.PassiveChecks) == PassiveChecksAvoid {
		unresponsive = v.unresponsive(p.key)
	}
	lists := v.lists(portKey{p.ServicePort.Name, p.Protocol, p.key.Family}, n, unresponsive)
	pool := o.pool(&p, lists, len(externals) > 0 && !v.elsewhere)
	clusterIP := Frontend{
		Match: p.key, Kind: KindClusterIP, Service: p.name(), Policy: p.InternalPolicy,
		Masquerade: o.clusterIPMasquerade(p.key.Family), Pool: pool,
	}
	clusterIP.Verdict = verdictFor(pool, clusterIP.Policy, lists)
	out = append(out, clusterIP)
	for _, f := range externals {
		f.Pool = pool
		f.Verdict = verdictFor(pool, f.Policy, lists)
		if f.Policy == PolicyCluster {
			f.Masquerade = MasqueradeAlways
		}
		switch {
		case v.elsewhere:
			f.Verdict = VerdictElsewhere
		case f.Kind == KindLoadBalancerIP || p.RangesForAll:
			o.restrict(&f, p.Service, v)
		}
		out = append(out, f)
	}
	return out
}

// affinityTimes are the supported client affinity timeouts, among them the default of
// Kubernetes, 3 hours. They are few because each one in use has chains of its own in the rule
// set, which cost every change.
var affinityTimes = [...]time.Duration{
	1 * time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
	20 * time.Second, 30 * time.Second, 1 * time.Minute, 2 * time.Minute, 3 * time.Minute, 5 * time.Minute,
	10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute, 1 * time.Hour, 2 * time.Hour,
	3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// AffinityTimeout returns the affinity timeout used for a Service that requests t, which is at
// most a day: the next of affinityTimes, or the one before if that is at most a twentieth
// shorter. So 125 s, which upstream's e2e tests request, do not become 3 minutes.
func AffinityTimeout(t time.Duration) time.Duration {
	if t == 0 {
		return 0
	}
	i, _ := slices.BinarySearch(affinityTimes[:], t-t/20)
	return affinityTimes[min(i, len(affinityTimes)-1)]
}

// pool returns the port's pool with the lists that some frontend uses. With
// PolicyLocal for external traffic, pods and the node itself use the cluster list.
func (o Options) pool(p *familyPort, lists endpointLists, external bool) *Pool {
	pool := &Pool{
		Key: p.key, UID: p.UID, Hairpin: lists.hairpin, FlowEndpoints: lists.flows,
		Affinity: AffinityTimeout(p.Affinity), Hold: p.Hold, ScaleToZero: p.ScaleToZero, RetryRefused: p.retries(),
		Scheduler:     cmp.Or(p.Scheduler, o.Scheduler, SchedulerRandom),
		PassiveChecks: cmp.Or(p.PassiveChecks, o.PassiveChecks).ifOn(),
		Avoided:       lists.avoided,
	}
	if pool.Affinity > 0 || !pool.Scheduler.IsHash() {
		pool.SlowStart = p.SlowStart
	}
	if pool.PassiveChecks != 0 {
		pool.StandBy = lists.standBy
	}
	if external || p.InternalPolicy == PolicyCluster {
		pool.Cluster, pool.ClusterWeights = lists.cluster, lists.clusterWeights
		pool.ClusterShares = pool.SharesOfWeights(false)
	}
	if p.InternalPolicy == PolicyLocal || external && p.ExternalPolicy == PolicyLocal {
		pool.Local, pool.LocalWeights = lists.local, lists.localWeights
		pool.LocalShares = pool.SharesOfWeights(true)
	}
	return pool
}

// verdictFor returns the verdict for connections under a policy.
func verdictFor(p *Pool, policy TrafficPolicy, lists endpointLists) Verdict {
	switch {
	case len(p.List(policy == PolicyLocal).Endpoints) > 0:
		return VerdictBalance
	case lists.anyUsable:
		return VerdictDrop
	case p.Hold > 0:
		return VerdictHold
	}
	return VerdictReject
}

// restrict sets the clients of a frontend. A prefix of all addresses does not count as a limit.
//
// A node that connects to an address which it has itself uses that address as the source. So if the
// node may connect, the Service's addresses of the kind may, too, and for node ports the node's; if it
// may not, neither may they.
func (o Options) restrict(f *Frontend, s *Service, v *endpointView) {
	own := s.LoadBalancerIPs
	switch f.Kind {
	case KindExternalIP:
		own = s.ExternalIPs
	case KindNodePort:
		own = v.nodeAddrs
	}
	family := f.Match.Family
	ofFamily := func(ranges []netip.Prefix) (out []netip.Prefix) {
		for _, p := range ranges {
			if FamilyOf(p.Addr()) == family {
				out = append(out, p.Masked())
			}
		}
		if slices.ContainsFunc(out, func(p netip.Prefix) bool { return p.Contains(v.node.Addrs[family]) }) {
			for _, a := range own {
				if FamilyOf(a) == family {
					out = append(out, netip.PrefixFrom(a, a.BitLen()))
				}
			}
		}
		return out
	}
	isAll := func(p netip.Prefix) bool { return p.Bits() == 0 }
	f.Sources, f.Denied = ofFamily(s.SourceRanges), ofFamily(s.DeniedRanges)
	switch {
	case slices.ContainsFunc(f.Sources, isAll):
		f.Sources = nil
	case len(f.Sources) > 0:
		f.Restricted = true
	default:
		f.Restricted = o.StrictSourceRanges && len(s.SourceRanges) > 0 && !slices.ContainsFunc(s.SourceRanges, isAll)
	}
	if len(f.Denied) > 0 && !f.Restricted {
		f.Sources, f.Restricted = []netip.Prefix{netip.PrefixFrom(f.Denied[0].Addr(), 0).Masked()}, true
	}
}
