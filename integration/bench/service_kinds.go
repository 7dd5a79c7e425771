package main

import (
	"net/netip"
	"time"

	"kube-vmap/model"
)

// serviceKind is what all Services of a cluster have besides their ClusterIP.
type serviceKind struct {
	name   string
	onNode int // every pod with a number divisible by it runs on this node
	// external gives each a node port, a load balancer address and an external IP,
	// under the policy.
	external bool
	policy   model.TrafficPolicy
	ranged   bool // source ranges limit who may use the load balancer addresses
	sticky   bool // with session affinity
}

// clusterIPKind has a ClusterIP only, and one pod of a hundred on this node.
var clusterIPKind = serviceKind{onNode: 100}

// serviceKinds are compared with the first of them. Of ten endpoints one is on this node.
var serviceKinds = []serviceKind{
	{name: "ClusterIP", onNode: 10},
	{name: "LoadBalancer, Cluster", onNode: 10, external: true},
	{name: "LoadBalancer, Local", onNode: 10, external: true, policy: model.PolicyLocal},
	{name: "LoadBalancer, Local, ranges", onNode: 10, external: true, policy: model.PolicyLocal, ranged: true},
}

// The addresses are of the ranges for benchmarks (RFC 2544, RFC 5180).
var (
	balancerBase = [2]netip.Addr{netip.MustParseAddr("198.18.0.0"), netip.MustParseAddr("2001:2::1:0:0")}
	externalBase = [2]netip.Addr{netip.MustParseAddr("198.19.0.0"), netip.MustParseAddr("2001:2::2:0:0")}
	balancers    = [2]netip.Prefix{netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("2001:2::/48")}
	sourceBase   = [2]netip.Addr{netip.MustParseAddr("172.16.0.0"), netip.MustParseAddr("fd00:20::")}
)

const (
	firstNodePort = 20_000
	nodePorts     = 45_000
	// Every so many Services has so many source ranges, the others have one.
	manyRangesEvery = 50
	manyRanges      = 200
)

// shape adds to Service number i what its kind has.
func (k *serviceKind) shape(s *model.Service, f model.Family, i int) {
	if k.sticky {
		s.Affinity = 3 * time.Hour
	}
	if !k.external {
		return
	}
	s.LoadBalancerIPs = []netip.Addr{nth(balancerBase[f], i+1)}
	s.ExternalIPs = []netip.Addr{nth(externalBase[f], i+1)}
	s.ExternalPolicy = k.policy
	s.Ports[0].NodePort = firstNodePort + uint16(i%nodePorts)
	switch {
	case !k.ranged:
	case i%manyRangesEvery == 0:
		s.SourceRanges = sourceRanges(f, i, manyRanges)
	default:
		s.SourceRanges = sourceRanges(f, i, 1)
	}
}

// sourceRanges returns n ranges of 256 addresses each, with gaps between them, from a
// place that depends on i.
func sourceRanges(f model.Family, i, n int) []netip.Prefix {
	out := make([]netip.Prefix, n)
	for j := range out {
		a := nth(sourceBase[f], (i%1024+2*j)<<8)
		out[j] = netip.PrefixFrom(a, a.BitLen()-8)
	}
	return out
}

// other returns the other policy.
func other(p model.TrafficPolicy) model.TrafficPolicy {
	if p == model.PolicyLocal {
		return model.PolicyCluster
	}
	return model.PolicyLocal
}
