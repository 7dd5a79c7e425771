package model

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// The oracle: what the whole cluster comes to, worked out word for word as the
// rules are written down, with no thought of speed. The histories and Select are
// held against it.

// cluster is every object there is.
type cluster struct {
	options  Options
	node     Node
	services map[ServiceName]Service
	slices   map[SliceName]Slice
}

// byTheBook is the frontend that holds each match, and all lost claims.
func (c *cluster) byTheBook() (map[Match]Frontend, map[Conflict]struct{}) {
	held, lost := map[Match]Frontend{}, map[Conflict]struct{}{}
	byAge := slices.SortedFunc(maps.Values(c.services), func(a, b Service) int {
		return cmp.Or(
			cmp.Compare(a.Created, b.Created),
			cmp.Compare(a.Name.Namespace, b.Name.Namespace),
			cmp.Compare(a.Name.Name, b.Name.Name),
		)
	})
	for _, s := range byAge {
		for _, port := range s.Ports {
			for _, addr := range s.ClusterIPs {
				fe := c.frontendByTheBook(s, port, addr)
				winner, taken := held[fe.Match]
				switch {
				case !taken:
					held[fe.Match] = fe
				case winner.Service != fe.Service:
					lost[Conflict{fe.Match, winner.Service, fe.Service}] = struct{}{}
				}
			}
		}
	}
	return held, lost
}

// frontendByTheBook is a Service's frontend at one port and ClusterIP.
func (c *cluster) frontendByTheBook(s Service, p ServicePort, addr netip.Addr) Frontend {
	f := IPv6
	if addr.Is4() {
		f = IPv4
	}
	var from []Slice
	for _, slice := range c.slices {
		if slice.Service == s.Name {
			from = append(from, slice)
		}
	}
	fe := Frontend{
		Match:      Match{Family: f, Addr: addr, Protocol: p.Protocol, Port: p.Port},
		Service:    ServicePortName{s.Name, p.Name, p.Protocol},
		Masquerade: MasqueradeNever,
	}
	if c.options.DetectsPods[f] {
		fe.Masquerade = MasqueradeOffPod
	}
	if c.options.MasqueradeAll {
		fe.Masquerade = MasqueradeAlways
	}
	got := selectByTheBook(fe.Service, f, from, c.node)
	endpoints := got.Cluster
	if s.InternalPolicy == PolicyLocal {
		endpoints = got.Local
	}
	switch {
	case len(endpoints) > 0:
		fe.Verdict, fe.Endpoints, fe.Hairpin = Balance, endpoints, got.OnNode
	case got.Anywhere:
		fe.Verdict = Drop
	default:
		fe.Verdict = Reject
	}
	return fe
}

// selectByTheBook is what Select should be.
func selectByTheBook(port ServicePortName, f Family, from []Slice, n Node) Selection {
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
	return Selection{
		Cluster:  slices.SortedFunc(maps.Keys(cluster), netip.AddrPort.Compare),
		Local:    slices.SortedFunc(maps.Keys(local), netip.AddrPort.Compare),
		Anywhere: len(ready)+len(draining) > 0,
		OnNode:   slices.SortedFunc(maps.Keys(onNode), netip.Addr.Compare),
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
