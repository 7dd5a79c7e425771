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

func addrs(v4, v6 string) [len(model.Families)]netip.Addr {
	return [...]netip.Addr{model.IPv4: netip.MustParseAddr(v4), model.IPv6: netip.MustParseAddr(v6)}
}

// Documentation addresses (RFC 5737, RFC 3849): Clients of a client to which only the default route
// leads, the others of Services that are not known yet.
var (
	Clients    = addrs("198.51.100.1", "2001:db8:c::1")
	balancers  = addrs("203.0.113.1", "2001:db8:b::1")
	clusterIPs = addrs("203.0.113.2", "2001:db8:b::2")
)

const (
	// maxRoutes is how many endpoints of a family are looked up, maxPackets how many packets have a
	// name, and maxEndpoints how many endpoints a target may have, each of which is simulated.
	maxRoutes, maxPackets, maxEndpoints = 1000, 3, 64

	firstNodePort, nodePorts = 30000, 2768 // by default
)

// nodeAddr returns the address from which the node would send to a client outside; invalid without a
// route. Nothing is sent.
func nodeAddr(f model.Family) netip.Addr {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(Clients[f], 9)))
	if err != nil {
		return netip.Addr{}
	}
	_ = c.Close() // nothing was sent
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// Assume returns targets of each kind, with one of the endpoints, which no Service has.
func Assume(endpoints []netip.AddrPort) (out []Target) {
	for i, e := range endpoints[:min(len(endpoints), nodePorts)] {
		f := model.FamilyOf(e.Addr())
		for kind, at := range map[model.Kind]netip.Addr{
			model.KindNodePort: nodeAddr(f), model.KindLoadBalancerIP: balancers[f], model.KindClusterIP: clusterIPs[f],
		} {
			to := netip.AddrPortFrom(at, uint16(firstNodePort+i))
			out = append(out, Target{to, model.TCP, kind, endpoints[i : i+1]})
		}
	}
	return out
}

// Targets returns those of frontends. nodeAddrs serve node ports.
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
	nodes := [...]netip.Addr{nodeAddr(model.IPv4), nodeAddr(model.IPv6)}
	for i := range installed {
		f := &installed[i]
		pool := owners[port{f.Service, f.Match.Family}]
		if pool == nil || f.Verdict != model.VerdictBalance || f.Restricted {
			continue
		}
		t := Target{netip.AddrPortFrom(f.Match.Addr, f.Match.Port), f.Match.Protocol, f.Kind, pool.Cluster}
		if f.Policy == model.PolicyLocal {
			t.Endpoints = pool.Local
		}
		if at := nodes[f.Match.Family]; f.Kind == model.KindNodePort {
			if !slices.Contains(nodeAddrs, at) {
				i := slices.IndexFunc(nodeAddrs, func(a netip.Addr) bool { return model.FamilyOf(a) == f.Match.Family })
				if i < 0 {
					continue
				}
				at = nodeAddrs[i]
			}
			t.To = netip.AddrPortFrom(at, f.Match.Port)
		}
		out = append(out, t)
	}
	return out
}

// Choose returns check packets for targets and health check ports. There are none of a kind without a
// target or a pod for it.
func Choose(n *livenode.Network, targets []Target, health []uint16) (out []Packet) {
	for _, f := range model.Families {
		c := chooser{network: n, family: f, places: map[netip.Addr]place{}}
		outside, _ := n.Route(simulate.RouteQuery{To: Clients[f]}) // without a route no packets come
		c.outside = outside.Out
		c.findPods(targets)
		c.choose("from outside to a node port", targets, model.KindNodePort)
		c.choose("from outside to an address of a load balancer", targets, model.KindLoadBalancerIP, model.KindExternalIP)
		c.choose("from a pod to a ClusterIP", targets, model.KindClusterIP)
		for _, port := range health {
			if at := nodeAddr(f); at.IsValid() && (len(c.out) > 0 || len(targets) == 0) {
				p := simulate.Packet{From: Clients[f], To: netip.AddrPortFrom(at, port), Protocol: model.TCP}
				c.out = append(c.out, Packet{p, fmt.Sprintf("%s from outside to health check port %d", f, port), true})
			}
		}
		out = append(out, c.out...)
	}
	return out
}

// A place is where an endpoint is.
type place uint8

const (
	placeUnknown place = iota // or the node itself
	placeHere
	placeOther // on another node
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
// outside comes.
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

func (c *chooser) findPods(targets []Target) {
	for i := range targets {
		for _, e := range targets[i].Endpoints {
			if len(c.pods) < maxPackets && c.place(e.Addr()) == placeHere && !slices.Contains(c.pods, e.Addr()) {
				c.pods = append(c.pods, e.Addr())
			}
		}
	}
}

// choose adds packets to targets of some kinds: from outside to pods of this node and of others, and
// from a pod only to others.
func (c *chooser) choose(name string, targets []Target, kinds ...model.Kind) {
	from, places := c.pods, []place{placeOther}
	if kinds[0] != model.KindClusterIP {
		from, places = []netip.Addr{Clients[c.family]}[:min(c.outside.Index, 1)], []place{placeHere, placeOther}
	}
	for _, to := range places {
		isThere := func(e netip.AddrPort) bool { return c.place(e.Addr()) == to }
		where := [...]string{placeHere: "this", placeOther: "another"}[to]
		whole := fmt.Sprintf("%s %s, pod on %s node", c.family, name, where)
		for i, n := 0, 0; i < len(targets) && n < maxPackets && len(from) > 0; i++ {
			t := &targets[i]
			if slices.Contains(kinds, t.Kind) && len(t.Endpoints) <= maxEndpoints && slices.ContainsFunc(t.Endpoints, isThere) {
				p := simulate.Packet{From: from[n%len(from)], To: t.To, Protocol: t.Protocol}
				c.out = append(c.out, Packet{Packet: p, Name: whole})
				n++
			}
		}
	}
}
