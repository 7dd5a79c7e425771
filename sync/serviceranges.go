package sync

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/model"
)

// New connections to unused ClusterIPs are dropped. But a ServiceCIDR may contain addresses of
// hosts, if the cluster was set up that way. So the rule set gets the ServiceCIDRs without the
// ranges that this node knows to be of hosts. That needs no rule, and packets do not pay for it.
// Nodes that are not on a link are not known: each node would have to watch all Node objects.

// kubernetes is the Service whose endpoints are the API servers. maxAPIServers limits how many are
// taken out: the rest of a range is then in as many parts as an address has bits.
var kubernetes = model.ServiceName{Namespace: "default", Name: "kubernetes"}

const maxAPIServers = 16

// A HostRange is a range of addresses of hosts, and which ones.
type HostRange struct {
	netip.Prefix
	Of string
}

// Networks returns the networks of a node's interfaces as ranges of hosts, each once.
func Networks(interfaces []netip.Prefix) (out []HostRange) {
	for _, p := range interfaces {
		if h := (HostRange{p.Masked(), "a network of this node"}); !p.IsSingleIP() && !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}

// Overlaps returns in words which ServiceCIDRs and ranges of hosts overlap, if any.
func Overlaps(cidrs []netip.Prefix, hosts []HostRange) string {
	var all []string
	for _, c := range cidrs {
		for _, h := range hosts {
			if c.Overlaps(h.Prefix) {
				all = append(all, fmt.Sprintf("ServiceCIDR %s overlaps %s, %s", c, h.Prefix, h.Of))
			}
		}
	}
	return strings.Join(all, "; ")
}

// setServiceRanges sets the ranges whose unused addresses are dropped.
func (s *desiredState) setServiceRanges() {
	hosts := s.hostRanges()
	var next []netip.Prefix
	for _, c := range s.cidrs {
		next = append(next, without(c, hosts)...)
	}
	if !slices.Equal(next, s.serviceRanges) {
		s.serviceRanges, s.serviceRangesChanged = next, true
	}
	s.overlaps = Overlaps(s.cidrs, hosts)
}

// without returns the parts of a range that overlap no range of hosts.
func without(p netip.Prefix, hosts []HostRange) []netip.Prefix {
	i := slices.IndexFunc(hosts, func(h HostRange) bool { return h.Overlaps(p) })
	switch {
	case i < 0:
		return []netip.Prefix{p}
	case hosts[i].Bits() <= p.Bits():
		return nil
	}
	low := netip.PrefixFrom(p.Addr(), p.Bits()+1)
	high := netip.PrefixFrom(model.LastAddr(low).Next(), p.Bits()+1)
	return append(without(low, hosts[i:]), without(high, hosts[i:])...)
}

// hostRanges returns the ranges that this node knows to be of hosts, and sets apiServer. A range of pods
// that contains a whole ServiceCIDR does not count: it only says whose packets are not masqueraded.
func (s *desiredState) hostRanges() []HostRange {
	out := Networks(s.networks)
	for _, p := range s.config.Rules.Pods {
		inside := func(c netip.Prefix) bool { return c.Bits() <= p.Bits() && c.Contains(p.Addr()) }
		if slices.ContainsFunc(s.cidrs, inside) {
			out = append(out, HostRange{p.Masked(), "the range of pods"})
		}
	}
	add := func(a netip.Addr, of string) {
		if a.IsValid() {
			out = append(out, HostRange{netip.PrefixFrom(a, a.BitLen()), of})
		}
	}
	for _, a := range s.node.Addrs {
		add(a, "this node's address")
	}
	s.apiServer = ""
	for _, a := range s.config.APIServer {
		at := model.Match{Family: model.FamilyOf(a.Addr()), Addr: a.Addr(), Protocol: model.TCP, Port: a.Port()}
		if f := s.services.FrontendAt(at); f == nil || f.Kind != model.KindClusterIP { // routers send it to other nodes
			add(a.Addr(), "the API server")
			continue
		}
		s.apiServer = fmt.Sprintf("the API server is configured as %s, which is Service %s: after a reboot no Service is "+
			"programmed, and none can be read", a, s.services.FrontendAt(at).Service.ServiceName)
	}
	for _, f := range s.services.FrontendsOf(kubernetes) {
		for _, e := range f.Pool.Cluster[:min(len(f.Pool.Cluster), maxAPIServers)] {
			add(e.Addr(), "an API server")
		}
	}
	return out
}
