package model

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// selectByTheBook is what Select should be, with flows of any protocol.
func selectByTheBook(port ServicePortName, f Family, from []EndpointSlice, n Node) endpointLists {
	offered := map[netip.AddrPort]Endpoint{}
	for _, s := range from {
		for _, p := range s.Ports {
			if s.Family != f || p.Name != port.Port || p.Protocol != port.Protocol {
				continue
			}
			for _, e := range s.Endpoints {
				at := netip.AddrPortFrom(e.Addr, p.Port)
				if other, twice := offered[at]; !twice || rankByTheBook(e) < rankByTheBook(other) {
					offered[at] = e
				}
			}
		}
	}
	those := func(serves func(Endpoint) bool) map[netip.AddrPort]Endpoint {
		out := maps.Clone(offered)
		maps.DeleteFunc(out, func(_ netip.AddrPort, e Endpoint) bool { return !serves(e) })
		return out
	}
	isHere := func(e Endpoint) bool { return n.Name != "" && e.Node == n.Name }
	ready := those(func(e Endpoint) bool { return e.Ready })
	draining := those(func(e Endpoint) bool { return e.Serving && e.Terminating })

	cluster := those(func(e Endpoint) bool { return e.Ready && passesByTheBook(e, ready, n) })
	if len(cluster) == 0 {
		cluster = draining
	}
	local := those(func(e Endpoint) bool { return isHere(e) && e.Ready })
	if len(local) == 0 {
		local = those(func(e Endpoint) bool { return isHere(e) && e.Serving && e.Terminating })
	}

	onNode := map[netip.Addr]struct{}{}
	for _, list := range []map[netip.AddrPort]Endpoint{cluster, local} {
		for at, e := range list {
			if isHere(e) {
				onNode[at.Addr()] = struct{}{}
			}
		}
	}
	flows := those(func(e Endpoint) bool { return e.Ready || e.Serving })
	return endpointLists{
		cluster:   slices.SortedFunc(maps.Keys(cluster), netip.AddrPort.Compare),
		local:     slices.SortedFunc(maps.Keys(local), netip.AddrPort.Compare),
		anyUsable: len(ready)+len(draining) > 0,
		hairpin:   slices.SortedFunc(maps.Keys(onNode), netip.Addr.Compare),
		flows:     slices.SortedFunc(maps.Keys(flows), netip.AddrPort.Compare),
	}
}

// passesByTheBook reports whether the hints of the ready endpoints leave e to
// node n.
func passesByTheBook(e Endpoint, ready map[netip.AddrPort]Endpoint, n Node) bool {
	allHintNodes, someHintsNode, allHintZones, someHintsZone := true, false, true, false
	for _, r := range ready {
		allHintNodes = allHintNodes && r.NodeHints != ""
		someHintsNode = someHintsNode || hasByTheBook(r.NodeHints, n.Name)
		allHintZones = allHintZones && r.ZoneHints != ""
		someHintsZone = someHintsZone || hasByTheBook(r.ZoneHints, n.Zone)
	}
	switch {
	case allHintNodes && someHintsNode:
		return hasByTheBook(e.NodeHints, n.Name)
	case allHintZones && someHintsZone:
		return hasByTheBook(e.ZoneHints, n.Zone)
	}
	return true
}

// hasByTheBook knows only the sets that the histories make.
func hasByTheBook(s NameSet, name string) bool {
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

// rankByTheBook is lower for the endpoint to believe of two with one address.
func rankByTheBook(e Endpoint) string {
	return fmt.Sprintf("%t %t %t %s\x00%s\x00%s", e.Terminating, !e.Ready, !e.Serving, e.Node, e.ZoneHints, e.NodeHints)
}
