package pathcheck

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
)

// A Target is an address and port of a Service, with the endpoints of its connections.
type Target struct {
	To        netip.AddrPort
	Protocol  model.Protocol
	Kind      model.Kind
	Endpoints []netip.AddrPort
}

// Clients are documentation addresses (RFC 5737, RFC 3849), to which only the default route leads.
var Clients = [...]netip.Addr{
	model.IPv4: netip.MustParseAddr("198.51.100.1"), model.IPv6: netip.MustParseAddr("2001:db8:c::1"),
}

const (
	// maxRoutes is how many endpoints of a family are looked up, maxPackets how many packets have a
	// name, and maxEndpoints how many endpoints a target may have, each of which is simulated.
	maxRoutes, maxPackets, maxEndpoints = 1000, 3, 64
)

// NodeAddr returns the address from which the node would send to a client outside; invalid without a
// route.
func NodeAddr(f model.Family) netip.Addr { return Source(netip.AddrPortFrom(Clients[f], 9)) }

// Source returns the address from which the node would send; invalid without a route. Nothing is sent.
func Source(to netip.AddrPort) netip.Addr {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return netip.Addr{}
	}
	_ = c.Close() // nothing was sent
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// Targets returns the targets of frontends. nodeAddrs serve node ports.
func Targets(installed []nft.InstalledFrontend, nodeAddrs []netip.Addr) (out []Target) {
	type port struct {
		model.ServicePortName
		model.Family
	}
	owners := map[port]*nft.InstalledFrontend{}
	for i := range installed {
		if f := &installed[i]; f.IsClusterIP() {
			owners[port{f.Service, f.Match.Family}] = f
		}
	}
	nodes := [...]netip.Addr{NodeAddr(model.IPv4), NodeAddr(model.IPv6)}
	for _, a := range nodeAddrs {
		if at := &nodes[model.FamilyOf(a)]; !slices.Contains(nodeAddrs, *at) {
			*at = a
		}
	}
	for i := range installed {
		f := &installed[i]
		pool := owners[port{f.Service, f.Match.Family}]
		if pool == nil || f.Verdict != model.VerdictBalance || f.Restricted {
			continue
		}
		t := Target{netip.AddrPortFrom(f.Match.Addr, f.Match.Port), f.Match.Protocol, f.Kind, pool.Cluster}
		if f.Kind == model.KindNodePort {
			t.To = netip.AddrPortFrom(nodes[f.Match.Family], f.Match.Port)
		}
		if f.Policy == model.PolicyLocal {
			t.Endpoints = pool.Local
		}
		out = append(out, t)
	}
	return out
}

// Choose returns check packets for targets and health check ports. There are none of a kind without a
// target, a pod or a route for it.
func Choose(n *livenode.Network, targets []Target, health []uint16) (out []Packet) {
	for _, f := range model.Families {
		outside, _ := n.Route(simulate.RouteQuery{To: Clients[f]}) // without a route no packets come
		c := chooser{network: n, family: f, outside: outside.Out, places: map[netip.Addr]place{}}
		for i := range targets {
			for _, e := range targets[i].Endpoints {
				if len(c.pods) < maxPackets && c.place(e.Addr()) == placeHere && !slices.Contains(c.pods, e.Addr()) {
					c.pods = append(c.pods, e.Addr())
				}
			}
		}
		clients := []netip.Addr{Clients[f]}[:min(c.outside.Index, 1)]
		for _, to := range []place{placeHere, placeOther} {
			c.choose("outside to a node port", clients, to, targets, model.KindNodePort)
			c.choose("outside to a load balancer address", clients, to, targets, model.KindLoadBalancerIP, model.KindExternalIP)
		}
		c.choose("a pod to a ClusterIP", c.pods, placeOther, targets, model.KindClusterIP)
		for _, port := range health {
			if at := NodeAddr(f); at.IsValid() && (len(c.out) > 0 || len(targets) == 0) {
				p := simulate.Packet{From: Clients[f], To: netip.AddrPortFrom(at, port), Protocol: model.TCP}
				c.out = append(c.out, Packet{p, fmt.Sprintf("%s from outside to health check port %d", f, port), true})
			}
		}
		out = append(out, c.out...)
	}
	return out
}

type place string

const (
	placeHere  place = "this node"
	placeOther place = "another node"
)

type chooser struct {
	network *livenode.Network
	family  model.Family
	outside simulate.Link // by which clients outside come
	places  map[netip.Addr]place
	pods    []netip.Addr // of this node
	out     []Packet
}

// place returns where an address of the family is: on this node if it is on a link by which no client
// outside comes. It is empty for the node itself, and if that is not known.
func (c *chooser) place(a netip.Addr) place {
	known, found := c.places[a]
	if found || len(c.places) >= maxRoutes || model.FamilyOf(a) != c.family {
		return known
	}
	switch r, err := c.network.Route(simulate.RouteQuery{To: a}); {
	case err != nil || r.Local:
	case r.Via.IsValid() || r.Out == c.outside:
		known = placeOther
	default:
		known = placeHere
	}
	c.places[a] = known
	return known
}

// choose adds packets to targets of some kinds that have an endpoint there.
func (c *chooser) choose(name string, from []netip.Addr, to place, targets []Target, kinds ...model.Kind) {
	isThere := func(e netip.AddrPort) bool { return c.place(e.Addr()) == to }
	for i, n := 0, 0; i < len(targets) && n < min(maxPackets, maxPackets*len(from)); i++ {
		t := &targets[i]
		if slices.Contains(kinds, t.Kind) && len(t.Endpoints) <= maxEndpoints && slices.ContainsFunc(t.Endpoints, isThere) {
			p := simulate.Packet{From: from[n%len(from)], To: t.To, Protocol: t.Protocol}
			c.out = append(c.out, Packet{Packet: p, Name: fmt.Sprintf("%s from %s, pod on %s", c.family, name, to)})
			n++
		}
	}
}
