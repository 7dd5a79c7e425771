package sync

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/model"
)

// New connections to unused ClusterIPs are dropped. But a ServiceCIDR may contain addresses of hosts,
// if the cluster was set up that way. So the rule set gets the ServiceCIDRs without the ranges that
// this node knows to be of hosts. That takes no rule, and packets do not pay for it. Nodes that are
// not on a link are not known: each node would have to watch all Node objects.

// kubernetes is the Service whose endpoints are the API servers.
var kubernetes = model.ServiceName{Namespace: "default", Name: "kubernetes"}

const (
	// maxAPIServers limits the endpoints of that Service which are known to be of hosts: without
	// one of them, a range is as many parts as an address has bits.
	maxAPIServers = 16
	// maxOverlaps is how many overlaps a text names.
	maxOverlaps = 8
)

// A HostRange is a range of addresses of hosts, and which ones.
type HostRange struct {
	netip.Prefix
	Of string
}

// Networks returns the networks of a node's interfaces as ranges of hosts, each once.
func Networks(interfaces []netip.Prefix) (out []HostRange) {
	for _, p := range interfaces {
		known := func(h HostRange) bool { return h.Prefix == p.Masked() }
		if !p.IsSingleIP() && !slices.ContainsFunc(out, known) {
			out = append(out, HostRange{p.Masked(), "the network of the node's address " + p.Addr().String()})
		}
	}
	return out
}

// Overlaps returns in words which ServiceCIDRs and ranges of hosts overlap; empty if none do.
func Overlaps(cidrs []netip.Prefix, hosts []HostRange) string {
	var all []string
	for _, c := range cidrs {
		for _, h := range hosts {
			if c.Overlaps(h.Prefix) {
				all = append(all, fmt.Sprintf("ServiceCIDR %s overlaps %s, %s", c, h.Prefix, h.Of))
			}
		}
	}
	if more := len(all) - maxOverlaps; more > 0 {
		all = append(all[:maxOverlaps], fmt.Sprintf("%d more", more))
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
	var inside []HostRange
	for _, h := range hosts {
		switch {
		case !h.Overlaps(p):
		case h.Bits() <= p.Bits():
			return nil
		default:
			inside = append(inside, h)
		}
	}
	if len(inside) == 0 {
		return []netip.Prefix{p}
	}
	low := netip.PrefixFrom(p.Addr(), p.Bits()+1)
	high := netip.PrefixFrom(model.LastAddr(low).Next(), p.Bits()+1)
	return append(without(low, inside), without(high, inside)...)
}

// hostRanges returns the ranges that this node knows to be of hosts. A range of pods that contains
// a whole ServiceCIDR does not count: it only says whose packets are not masqueraded.
func (s *desiredState) hostRanges() []HostRange {
	out := Networks(s.networks)
	addPods := func(p netip.Prefix, of string) {
		inside := func(c netip.Prefix) bool { return c.Bits() <= p.Bits() && c.Contains(p.Addr()) }
		if slices.ContainsFunc(s.cidrs, inside) {
			out = append(out, HostRange{p.Masked(), of})
		}
	}
	for _, f := range model.Families {
		addPods(s.config.Rules.Pods[f], "the range of pods")
		addPods(s.node.PodCIDRs[f], "the range of this node's pods")
	}
	add := func(of string, list ...netip.Addr) {
		for _, a := range list {
			if a.IsValid() {
				out = append(out, HostRange{netip.PrefixFrom(a, a.BitLen()), of})
			}
		}
	}
	add("this node's address", s.node.Addrs[:]...)
	for _, a := range s.config.APIServer {
		if s.services.FrontendAt(serverMatch(a)) == nil {
			add("the API server", a.Addr())
		}
	}
	add("an API server", s.apiServers()...)
	return out
}

func serverMatch(a netip.AddrPort) model.Match {
	return model.Match{Family: model.FamilyOf(a.Addr()), Addr: a.Addr(), Protocol: model.TCP, Port: a.Port()}
}

// apiServers returns the endpoints of the API server's Service, sorted.
func (s *desiredState) apiServers() (out []netip.Addr) {
	for _, f := range s.services.FrontendsOf(kubernetes) {
		for _, e := range f.Pool.Cluster {
			out = append(out, e.Addr())
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	out = slices.Compact(out)
	return out[:min(len(out), maxAPIServers)]
}

// apiServerService returns why the node may not reach the API server after a reboot: it is
// configured to use a Service, which does not exist before it has been read from there.
func (s *desiredState) apiServerService() string {
	for _, a := range s.config.APIServer {
		if f := s.services.FrontendAt(serverMatch(a)); f != nil {
			return fmt.Sprintf("the API server is configured as %s, which is Service %s: after a reboot no Service is "+
				"programmed, and none can be read", a, f.Service.ServiceName)
		}
	}
	return ""
}
