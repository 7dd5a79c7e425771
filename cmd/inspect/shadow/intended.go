package shadow

import (
	"fmt"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

// tcpReset is how simulate names a refusal with a reset.
const tcpReset = "a TCP reset"

// intended returns why a difference is on purpose; empty if it is not. The list is that of
// docs/usage.md, "Services". Each case is as narrow as it can be: a Service with weights may
// still lack an endpoint.
func (c *comparer) intended(d *Difference, f *frontend, ours, theirs *outcome) string {
	if d.Kind == KindUnknown {
		return ""
	}
	if winner, claimed := c.conflicts[f.match]; claimed {
		return fmt.Sprintf("conflicting claims: %s holds the address, and with kube-proxy the winner is random", winner)
	}
	refused := ours.verdict() == simulate.VerdictRefused && theirs.verdict() == simulate.VerdictRefused
	if refused && f.match.Protocol == model.TCP && ours.how == tcpReset {
		return "refused TCP connections get a reset"
	}
	if f.ours == nil {
		return ""
	}
	if d.Kind == KindVerdict && c.isNodeToExternal(d, f) && ours.verdict() == simulate.VerdictRefused && theirs.verdict() == simulate.VerdictNotService {
		return "the node's connections to external addresses without endpoints are refused as in nftables mode"
	}
	p := f.ours.Pool
	switch d.Kind {
	case KindShares:
		switch {
		case p.ClusterWeights != nil || p.LocalWeights != nil:
			return "weights"
		case p.Scheduler > model.SchedulerRandom && p.Affinity == 0:
			return "scheduler " + p.Scheduler.String()
		}
	case KindEndpoints:
		if len(ours.missing(theirs)) == 0 && c.areDrained(f.ours, theirs.missing(ours)) {
			return "weight 0 drains"
		}
	case KindVerdict, KindSourceRanges:
		switch {
		case c.in.StrictSourceRanges && f.ours.Restricted && len(f.ours.Sources) == 0:
			return "strict source ranges close the family that has none"
		case !ours.serves() && theirs.serves() && c.areDrained(f.ours, theirs.missing(ours)):
			return "weight 0 drains"
		}
	case KindAffinity:
		if roundedAffinity(ours, theirs) {
			return "affinity time-outs are rounded up to one of 24"
		}
	}
	return ""
}

// isNodeToExternal reports whether the node asks an external address while kube-proxy is in
// iptables mode, whose hook OUTPUT refuses nothing at external addresses without endpoints.
func (c *comparer) isNodeToExternal(d *Difference, f *frontend) bool {
	return c.round.Mode != "nftables" && slices.Equal(d.Clients, []string{clientNode}) &&
		(f.ours.Kind == model.KindExternalIP || f.ours.Kind == model.KindLoadBalancerIP)
}

// intendedForNode is [comparer.intended] for what belongs to no Service.
func (c *comparer) intendedForNode(name string, d *Difference) string {
	iptables := c.round.Mode != "nftables"
	switch {
	case d.Kind == KindUnknown:
		return ""
	case name == nodeUnusedPort && (iptables || d.Intended != ""):
		return "unused ports of ClusterIPs are refused as in nftables mode, TCP with a reset"
	case name == nodeUnusedAddr && iptables:
		return "unused ClusterIPs are dropped as in nftables mode"
	case name == nodeUnusedAddr && d.Theirs == "not translated":
		return "kube-proxy may need an hour to follow ServiceCIDRs"
	case name == nodeAddress && iptables && c.in.NodePortsDefault:
		return "node ports answer on primary addresses in every mode"
	}
	return d.Intended
}

// areDrained reports whether all of these endpoints are in slices of weight zero.
func (c *comparer) areDrained(f *model.Frontend, list []netip.AddrPort) bool {
	drained := map[netip.Addr]bool{}
	for _, s := range c.slices(f.Service.ServiceName) {
		if s.Drained {
			for i := range s.Endpoints {
				drained[s.Endpoints[i].Addr] = true
			}
		}
	}
	for _, e := range list {
		if !drained[e.Addr()] {
			return false
		}
	}
	return len(list) > 0
}

// slices returns the EndpointSlices of a Service.
func (c *comparer) slices(name model.ServiceName) []model.EndpointSlice {
	if c.services == nil {
		c.services = make(map[model.ServiceName]model.ServiceSnapshot, len(c.in.State.Services))
		for _, s := range c.in.State.Services {
			c.services[s.Name] = s
		}
	}
	return c.services[name].Slices
}

// roundedAffinity reports whether all time-outs of ours are the next ones that are not
// shorter than theirs.
func roundedAffinity(ours, theirs *outcome) bool {
	for _, e := range ours.common(theirs) {
		a, b := ours.endpoints[e], theirs.endpoints[e]
		if a.sticks != b.sticks || a.remembered != model.AffinityTimeout(b.remembered) {
			return false
		}
	}
	return true
}
