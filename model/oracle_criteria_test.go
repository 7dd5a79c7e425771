package model

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// oracleEndpoint is an endpoint with the properties of its slice.
type oracleEndpoint struct {
	Endpoint
	weight  uint16
	drained bool
}

// oracleWeights returns the weights in the order of addresses, unless they are equal.
func oracleWeights(of map[netip.AddrPort]oracleEndpoint) []uint16 {
	var out []uint16
	for _, at := range slices.SortedFunc(maps.Keys(of), netip.AddrPort.Compare) {
		out = append(out, max(1, of[at].weight))
	}
	if len(slices.Compact(slices.Clone(out))) < 2 {
		return nil
	}
	return out
}

// oracleActive returns the slices of the priority that serves a port: the best one of those that
// have an endpoint of the first of these kinds.
func oracleActive(port ServicePortName, f Family, from []EndpointSlice, unresponsive []netip.AddrPort) []EndpointSlice {
	for _, kind := range []func(e Endpoint, responsive bool) bool{
		func(e Endpoint, responsive bool) bool { return e.Ready && responsive },
		func(e Endpoint, responsive bool) bool { return e.Serving && e.Terminating && responsive },
		func(e Endpoint, _ bool) bool { return e.Ready },
		func(e Endpoint, _ bool) bool { return e.Serving && e.Terminating },
	} {
		for priority := range uint8(MaxPriority + 1) {
			found := false
			for _, s := range from {
				for _, p := range s.Ports {
					for _, e := range s.Endpoints {
						responsive := !slices.Contains(unresponsive, netip.AddrPortFrom(e.Addr, p.Port))
						found = found || s.Priority == priority && s.Family == f && !oracleDrained(port, e, p.Port, s, from) &&
							p.Name == port.Port && p.Protocol == port.Protocol && kind(e, responsive)
					}
				}
			}
			if found {
				return slices.DeleteFunc(slices.Clone(from), func(s EndpointSlice) bool { return s.Priority != priority && !s.Drained })
			}
		}
	}
	return from
}

// oracleDrained reports whether the slice, or another one of any priority, drains the slice's endpoint.
func oracleDrained(port ServicePortName, e Endpoint, number uint16, of EndpointSlice, from []EndpointSlice) bool {
	rank := oracleRank(oracleEndpoint{e, of.Weight, of.Drained})
	for _, s := range from {
		for _, p := range s.Ports {
			for _, d := range s.Endpoints {
				if s.Drained && s.Family == of.Family && p == (EndpointPort{port.Port, port.Protocol, number}) && d.Addr == e.Addr &&
					oracleRank(oracleEndpoint{d, s.Weight, true}) <= rank {
					return true
				}
			}
		}
	}
	return false
}

// oracleSelect returns the expected endpoint lists, with flows of any protocol.
func oracleSelect(
	port ServicePortName, f Family, from []EndpointSlice, n Node, unresponsive []netip.AddrPort, held bool,
) endpointLists {
	active := oracleActive(port, f, from, unresponsive)
	lists := oracleSelectOf(port, f, active, n, held)
	all := oracleSelectOf(port, f, from, n, held)
	if lists.flows = all.flows; held {
		lists.hairpin = all.hairpin
	}
	other := map[netip.AddrPort]bool{}
	for _, s := range from {
		for _, p := range s.Ports {
			for _, e := range s.Endpoints {
				if e.Ready && !oracleDrained(port, e, p.Port, s, from) && s.Family == f && p.Name == port.Port && p.Protocol == port.Protocol &&
					!slices.ContainsFunc(active, func(t EndpointSlice) bool { return t.Name == s.Name }) {
					other[netip.AddrPortFrom(e.Addr, p.Port)] = true
				}
			}
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(other), netip.AddrPort.Compare) {
		if slices.Contains(unresponsive, a) {
			lists.avoided = append(lists.avoided, a)
		} else {
			lists.standBy = append(lists.standBy, a)
		}
	}
	return lists
}

func oracleSelectOf(port ServicePortName, f Family, from []EndpointSlice, n Node, held bool) endpointLists {
	offered := map[netip.AddrPort]oracleEndpoint{}
	for _, s := range from {
		for _, p := range s.Ports {
			if s.Family != f || p.Name != port.Port || p.Protocol != port.Protocol {
				continue
			}
			for _, e := range s.Endpoints {
				e := oracleEndpoint{e, s.Weight, s.Drained}
				at := netip.AddrPortFrom(e.Addr, p.Port)
				if other, twice := offered[at]; !twice || oracleRank(e) < oracleRank(other) {
					offered[at] = e
				}
			}
		}
	}
	those := func(serves func(oracleEndpoint) bool) map[netip.AddrPort]oracleEndpoint {
		out := maps.Clone(offered)
		maps.DeleteFunc(out, func(_ netip.AddrPort, e oracleEndpoint) bool { return !serves(e) })
		return out
	}
	flows := those(func(e oracleEndpoint) bool { return e.Ready || e.Serving })
	offered = those(func(e oracleEndpoint) bool { return !e.drained })
	isHere := func(e oracleEndpoint) bool { return n.Name != "" && e.Node == n.Name }
	ready := those(func(e oracleEndpoint) bool { return e.Ready })
	terminating := func(e oracleEndpoint) bool { return e.Serving && e.Terminating && (!held || len(ready) > 0) }
	servingTerminating := those(terminating)

	cluster := those(func(e oracleEndpoint) bool { return e.Ready && oracleAllowedByHints(e, ready, n) })
	if len(cluster) == 0 {
		cluster = servingTerminating
	}
	local := those(func(e oracleEndpoint) bool { return isHere(e) && e.Ready })
	if len(local) == 0 {
		local = those(func(e oracleEndpoint) bool { return isHere(e) && terminating(e) })
	}

	onNode := map[netip.Addr]struct{}{}
	lists := []map[netip.AddrPort]oracleEndpoint{cluster, local}
	if held {
		lists = append(lists, flows)
	}
	for _, list := range lists {
		for at, e := range list {
			if isHere(e) {
				onNode[at.Addr()] = struct{}{}
			}
		}
	}
	return endpointLists{
		clusterWeights: oracleWeights(cluster), localWeights: oracleWeights(local),

		cluster:   slices.SortedFunc(maps.Keys(cluster), netip.AddrPort.Compare),
		local:     slices.SortedFunc(maps.Keys(local), netip.AddrPort.Compare),
		anyUsable: len(ready)+len(servingTerminating) > 0,
		hairpin:   slices.SortedFunc(maps.Keys(onNode), netip.Addr.Compare),
		flows:     slices.SortedFunc(maps.Keys(flows), netip.AddrPort.Compare),
	}
}

// oracleAllowedByHints reports whether the hints of the ready endpoints allow node n
// to use e.
func oracleAllowedByHints(e oracleEndpoint, ready map[netip.AddrPort]oracleEndpoint, n Node) bool {
	allHintNodes, someHintsNode, allHintZones, someHintsZone := true, false, true, false
	for _, r := range ready {
		allHintNodes = allHintNodes && r.NodeHints != ""
		someHintsNode = someHintsNode || oracleHas(r.NodeHints, n.Name)
		allHintZones = allHintZones && r.ZoneHints != ""
		someHintsZone = someHintsZone || oracleHas(r.ZoneHints, n.Zone)
	}
	switch {
	case allHintNodes && someHintsNode:
		return oracleHas(e.NodeHints, n.Name)
	case allHintZones && someHintsZone:
		return oracleHas(e.ZoneHints, n.Zone)
	}
	return true
}

// oracleHas reports whether a set has a name, for the sets that histories use.
func oracleHas(s NameSet, name string) bool {
	switch s {
	case zoneA, zoneB, here, there:
		return name == string(s)
	case zoneA + "," + zoneB:
		return name == zoneA || name == zoneB
	case here + "," + there:
		return name == here || name == there
	}
	return false
}

// oracleRank is lower for the endpoint to use of two with the same address.
func oracleRank(e oracleEndpoint) string {
	weight := fmt.Sprintf("%05d", e.weight)
	if e.weight == 0 {
		weight = "none"
	}
	if e.drained {
		weight = " " + weight
	}
	return fmt.Sprintf("%t %t %t %s\x00%s\x00%s\x00%s", e.Terminating, !e.Ready, !e.Serving, weight, e.Node, e.ZoneHints, e.NodeHints)
}

// oracleAvoid takes unresponsive endpoints out of the winners' pools. It returns by
// Service the addresses that do not count in its health check.
func (c *cluster) oracleAvoid(winners map[Match]Frontend) map[ServiceName]map[netip.Addr]bool {
	missing := map[ServiceName]map[netip.Addr]bool{}
	for key, unresponsive := range c.unresponsive {
		f, exists := winners[key]
		if !exists || f.Kind != KindClusterIP || f.Pool.PassiveChecks != PassiveChecksAvoid {
			continue
		}
		if missing[f.Service.ServiceName] == nil {
			missing[f.Service.ServiceName] = map[netip.Addr]bool{}
		}
		for _, a := range unresponsive {
			if slices.Contains(f.Pool.Cluster, a) || slices.Contains(f.Pool.Local, a) || slices.Contains(f.Pool.Avoided, a) {
				missing[f.Service.ServiceName][a.Addr()] = true
			}
		}
		p := f.Pool
		p.oracleAvoid(&p.Cluster, &p.ClusterWeights, &p.ClusterShares, unresponsive, c.options.MaxAvoidedPercent)
		p.oracleAvoid(&p.Local, &p.LocalWeights, &p.LocalShares, unresponsive, c.options.MaxAvoidedPercent)
		slices.SortFunc(p.Avoided, netip.AddrPort.Compare)
		p.Avoided = slices.Compact(p.Avoided)
	}
	return missing
}

// oracleAvoid moves endpoints from one of the pool's lists to Avoided, the first unresponsive
// ones, as long as another one remains and the limit allows one more.
func (p *Pool) oracleAvoid(list *[]netip.AddrPort, weights, shares *[]uint16, unresponsive []netip.AddrPort, percent int) {
	all, left := float64(len(*list)), slices.Clone(*list)
	of := map[netip.AddrPort]uint16{}
	for i := range *weights {
		of[(*list)[i]] = (*weights)[i]
	}
	for _, a := range unresponsive {
		removed := all - float64(len(left))
		if len(left) > 1 && slices.Contains(left, a) && 100*(removed+1) <= all*float64(percent) {
			left = slices.DeleteFunc(left, func(b netip.AddrPort) bool { return b == a })
			p.Avoided = append(p.Avoided, a)
		}
	}
	*weights = nil
	for _, a := range left {
		if len(of) > 0 {
			*weights = append(*weights, of[a])
		}
	}
	if len(slices.Compact(slices.Clone(*weights))) < 2 {
		*weights = nil
	}
	*list, *shares = left, p.sharesFor(*weights)
}
