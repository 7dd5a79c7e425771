package shadow

import (
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate"
)

// Reasons why kube-vmap differs on purpose. The list is that of docs/usage.md, "Services".
const (
	intendedConflict    = "conflicting claims"
	intendedReset       = "refused TCP connections get a reset"
	intendedUnusedPort  = "unused ports of ClusterIPs are refused as in nftables mode, TCP with a reset"
	intendedUnusedAddr  = "unused ClusterIPs are dropped as in nftables mode"
	intendedServiceCIDR = "kube-proxy may need an hour to follow ServiceCIDRs"
	intendedNodePorts   = "node ports answer on primary addresses in every mode"
	intendedFromNode    = "the node's connections to external addresses without endpoints are refused as in nftables mode"
	intendedExcluded    = "clients outside source ranges are dropped as in nftables mode, also without endpoints"
	intendedWeights     = "weights"
	intendedScheduler   = "scheduler "
	intendedDrained     = "weight 0 drains"
	intendedStandby     = "standby endpoints get connections while no better one serves"
	intendedHold        = "connections wait for an endpoint"
	intendedStrict      = "strict source ranges close the family that has none"
	intendedAffinity    = "affinity time-outs are rounded to one of 24"
)

// intended returns why a difference is on purpose, without and with names of Services; empty if it
// is not. Each case is as narrow as it can be: a Service with weights may still lack an endpoint.
func (c *comparer) intended(d *Difference, f *frontend, ours, theirs *outcome) (reason, text string) {
	winner, claimed := c.conflicts[f.match]
	switch {
	case d.Kind == KindUnknown:
	case claimed:
		return intendedConflict, intendedConflict + ": " + winner +
			" holds the address, and with kube-proxy the winner is random"
	case f.ours == nil:
		reason = c.intendedForNode(f, ours, theirs)
	default:
		reason = c.intendedForService(d, f, ours, theirs)
	}
	return reason, reason
}

func (o *outcome) resets(theirs *outcome, f *frontend) bool {
	refused := o.verdict() == simulate.VerdictRefused && theirs.verdict() == simulate.VerdictRefused
	return refused && f.match.Protocol == model.TCP && o.how == simulate.HowReset
}

// intendedForNode is [comparer.intended] for what kube-vmap has no frontend for.
func (c *comparer) intendedForNode(f *frontend, ours, theirs *outcome) string {
	iptables := c.report.Mode == modeIPTables
	switch reset := ours.resets(theirs, f); {
	case f.probe == probePort && (iptables || reset):
		return intendedUnusedPort
	case f.probe == probeAddr && iptables:
		return intendedUnusedAddr
	case f.probe == probeAddr && theirs.verdict() == simulate.VerdictNotService:
		return intendedServiceCIDR
	case f.probe == probeNodePort && iptables && c.in.NodePortsDefault:
		return intendedNodePorts
	case reset:
		return intendedReset
	}
	return ""
}

// intendedForService is [comparer.intended] for a frontend of kube-vmap.
func (c *comparer) intendedForService(d *Difference, f *frontend, ours, theirs *outcome) string {
	p := f.ours.Pool
	verdicts := d.Kind == KindVerdict || d.Kind == KindSourceRanges
	drained := func() bool { return c.areDrained(f.ours, theirs.missing(ours)) }
	switch {
	case ours.resets(theirs, f):
		return intendedReset
	case d.Kind == KindVerdict && c.isNodeToExternal(d, f) &&
		ours.verdict() == simulate.VerdictRefused && theirs.verdict() == simulate.VerdictNotService:
		return intendedFromNode
	case verdicts && c.report.Mode == modeIPTables && c.excludes(d, f, ours, theirs):
		return intendedExcluded
	case d.Kind == KindShares && (p.ClusterWeights != nil || p.LocalWeights != nil):
		return intendedWeights
	case d.Kind == KindShares && p.Scheduler > model.SchedulerRandom && p.Affinity == 0:
		return intendedScheduler + p.Scheduler.String()
	case d.Kind == KindEndpoints && len(ours.missing(theirs)) == 0 && drained():
		return intendedDrained
	case d.Kind == KindEndpoints && len(ours.missing(theirs)) == 0 && c.standBy(f.ours, theirs.missing(ours)):
		return intendedStandby
	case verdicts && f.ours.Verdict == model.VerdictHold && ours.verdict() == simulate.VerdictDropped && !theirs.serves():
		return intendedHold
	case verdicts && c.in.Loop.StrictSourceRanges && f.ours.Restricted && len(f.ours.Sources) == 0:
		return intendedStrict
	case verdicts && !ours.serves() && theirs.serves() && drained():
		return intendedDrained
	case d.Kind == KindAffinity && roundedAffinity(ours, theirs):
		return intendedAffinity
	}
	return ""
}

// excludes reports whether source ranges exclude a client to which kube-proxy in iptables mode says
// first that there are no endpoints.
func (c *comparer) excludes(d *Difference, f *frontend, ours, theirs *outcome) bool {
	none := theirs.verdict() == simulate.VerdictRefused ||
		c.isNodeToExternal(d, f) && theirs.verdict() == simulate.VerdictNotService
	return none && f.ours.Restricted && ours.verdict() == simulate.VerdictDropped
}

// isNodeToExternal reports whether the node asks an external address while kube-proxy is in
// iptables mode, whose hook OUTPUT refuses nothing at external addresses without endpoints.
func (c *comparer) isNodeToExternal(d *Difference, f *frontend) bool {
	return c.report.Mode == modeIPTables && slices.Equal(d.Clients, []string{clientNode}) &&
		(f.ours.Kind == model.KindExternalIP || f.ours.Kind == model.KindLoadBalancerIP)
}

func (c *comparer) areDrained(f *model.Frontend, list []netip.AddrPort) bool {
	return c.areOf(f, list, func(s *model.EndpointSlice) bool { return s.Drained })
}

// standBy reports whether all of these endpoints are of a worse priority than another one.
func (c *comparer) standBy(f *model.Frontend, list []netip.AddrPort) bool {
	best := uint8(model.MaxPriority)
	for _, s := range c.services[f.Service.ServiceName].Slices {
		best = min(best, s.Priority)
	}
	return c.areOf(f, list, func(s *model.EndpointSlice) bool { return s.Priority > best })
}

// areOf reports whether there are endpoints in the list, each of a slice that matches.
func (c *comparer) areOf(f *model.Frontend, list []netip.AddrPort, matches func(*model.EndpointSlice) bool) bool {
	of := map[netip.Addr]bool{}
	all := c.services[f.Service.ServiceName].Slices
	for i := range all {
		if matches(&all[i]) {
			for k := range all[i].Endpoints {
				of[all[i].Endpoints[k].Addr] = true
			}
		}
	}
	return len(list) > 0 && !slices.ContainsFunc(list, func(e netip.AddrPort) bool { return !of[e.Addr()] })
}

// roundedAffinity reports whether all time-outs of ours are those that theirs are rounded to.
func roundedAffinity(ours, theirs *outcome) bool {
	for _, e := range ours.common(theirs) {
		a, b := ours.endpoints[e], theirs.endpoints[e]
		if a.sticks != b.sticks || a.remembered != model.AffinityTimeout(b.remembered) {
			return false
		}
	}
	return true
}
