package daemon

import (
	"net/netip"
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Ranges of external IPs and load balancer IPs, in the order of [model.Families].
// ClusterIPs are from [lab.ServiceRanges].
var (
	externalRanges = ranges("198.51.100.0/24", "2001:db8:e::/112")
	balancerRanges = ranges("203.0.113.0/24", "2001:db8:b::/112")
)

// firstNodePort is the node port of the first port of Service number 0.
const firstNodePort = 30000

// nodePortsEach is the most node ports that a Service can have.
const nodePortsEach = 4

func ranges(ip4, ip6 string) [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix(ip4), netip.MustParsePrefix(ip6)}
}

// Kinds are all kinds of frontends.
var Kinds = []model.Kind{model.KindClusterIP, model.KindNodePort, model.KindExternalIP, model.KindLoadBalancerIP}

// Addr returns the Service's address of a kind; the zero Addr for node ports.
func (s Service) Addr(f model.Family, k model.Kind) netip.Addr {
	switch k {
	case model.KindClusterIP:
		return lab.Nth(lab.ServiceRanges[f], s.Number)
	case model.KindExternalIP:
		return lab.Nth(externalRanges[f], s.Number)
	case model.KindLoadBalancerIP:
		return lab.Nth(balancerRanges[f], s.Number)
	}
	return netip.Addr{}
}

func (s Service) nodePort(n int) int { return firstNodePort + nodePortsEach*s.Number + n }

// AddrPort returns where clients reach the n-th port by a kind of frontend; a node
// port, at the given node.
func (s Service) AddrPort(node *lab.Node, f model.Family, k model.Kind, n int) netip.AddrPort {
	if k == model.KindNodePort {
		return node.AddrPort(f, uint16(s.nodePort(n)))
	}
	return netip.AddrPortFrom(s.Addr(f, k), uint16(Port+n))
}

// RouteServices routes packets of the host outside to Service addresses through a
// node.
func RouteServices(t testing.TB, l *lab.Lab, node *lab.Node) {
	t.Helper()
	for _, all := range [][2]netip.Prefix{lab.ServiceRanges, externalRanges, balancerRanges} {
		for _, f := range model.Families {
			if err := l.Outside.AddRoute(all[f], node.Addr(f)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// ClusterAddrPort returns the first port at the ClusterIP.
func (s Service) ClusterAddrPort(f model.Family) netip.AddrPort {
	return s.AddrPort(nil, f, model.KindClusterIP, 0)
}
