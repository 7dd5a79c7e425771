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
	sticky   bool // with session affinity
}

// clusterIPKind has a ClusterIP only, and one pod of a hundred on this node.
var clusterIPKind = serviceKind{onNode: 100}

// The addresses are of the ranges for benchmarks (RFC 2544, RFC 5180).
var (
	balancerBase = [2]netip.Addr{netip.MustParseAddr("198.18.0.0"), netip.MustParseAddr("2001:2::1:0:0")}
	externalBase = [2]netip.Addr{netip.MustParseAddr("198.19.0.0"), netip.MustParseAddr("2001:2::2:0:0")}
)

const (
	firstNodePort = 20_000
	nodePorts     = 45_000
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
}
