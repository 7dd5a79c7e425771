// Package pathcheck simulates check packets: a fixed list of packets by which a node finds out
// whether its rules, routes and sysctls let the traffic of Services pass.
//
//	client outside --> node port, address of a load balancer --> pod of this node, of another one
//	pod            --> ClusterIP                             --> pod of another node
//	client outside --> health check ports of this node
//
// [Choose] takes them from Services, endpoints and routes, in each family, and [Simulate] simulates
// them. What rules of kube-vmap drop or reject is no result: that is the Services' matter.
package pathcheck

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/explain"
	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

// A Packet is a check packet. Of packets with the same name, one has to be delivered.
type Packet struct {
	simulate.Packet
	Name   string
	Health bool // it goes to a health check port
}

// States of check packets.
const (
	Delivered = "delivered"
	Uncertain = "uncertain" // the simulation is not certain
	Lost      = "lost"      // the packet or its reply, always or sometimes
)

// States are all states.
var States = []string{Delivered, Uncertain, Lost}

// A Result is what becomes of the packets with a name: of the one that is delivered, or the first.
type Result struct {
	Packet
	State string
	// Text is the packet with its addresses, and why it is not delivered, with the rule that decides.
	Text string
	// Endpoints are where the packet goes or would have gone, sorted.
	Endpoints []netip.AddrPort
	by        path.RuleRef
}

// policyChains are the beginnings of the names of chains in which CNI plugins enforce network
// policies: these drop packets on purpose.
var policyChains = []string{"cali-", "KUBE-POD-FW-", "KUBE-NWPLCY-", "KUBE-ROUTER-"}

// Simulate simulates the packets that choose returns, on the node of the calling thread. Packets with
// the same name are lost only if the same rule stops all: a network policy stops the packets of single pods.
func Simulate(c livenode.Config, choose func(*livenode.Network) []Packet) (out []Result, err error) {
	c.OnlyConfiguration = true
	n, err := livenode.Open(c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	for _, p := range choose(n.Network()) {
		last := len(out) - 1
		same := last >= 0 && out[last].Name == p.Name
		if same && out[last].State == Delivered {
			continue
		}
		switch r := run(n, p); {
		case !same:
			out = append(out, r)
		case r.State == Delivered:
			out[last] = r
		case r.by != out[last].by:
			out[last].State = Uncertain
		}
	}
	return out, nil
}

func run(n *livenode.Node, p Packet) Result {
	r := Result{Packet: p, State: Uncertain, Text: fmt.Sprintf("%s (%s)", p.Name, p.Packet)}
	w, err := n.Run(p.Packet, "")
	if err != nil {
		r.Text += ": " + err.Error()
		return r
	}
	for _, o := range w.Outcomes {
		r.Endpoints = append(r.Endpoints, o.Stopped...)
		for _, e := range o.Endpoints {
			r.Endpoints = append(r.Endpoints, e.AddrPort())
		}
	}
	slices.SortFunc(r.Endpoints, netip.AddrPort.Compare)
	a := explain.NewAnswer(w)
	a.Outcomes = slices.DeleteFunc(a.Outcomes, func(o path.Outcome) bool { return o.Reason != "" })
	untranslated := func(o path.Outcome) bool { return o.Verdict == path.VerdictNotService }
	switch arrives := a.Arrival(); {
	case len(a.Outcomes) == 0 || !p.Health && slices.ContainsFunc(a.Outcomes, untranslated):
		r.Text += ": the Service was not followed"
		return r
	case arrives == answer.Always:
		r.State = Delivered
		return r
	case arrives != answer.Unknown:
		r.State = Lost
	}
	var why []string
	why, r.by = reasons(&a)
	if slices.ContainsFunc(policyChains, func(start string) bool { return strings.HasPrefix(r.by.Chain, start) }) {
		r.State = Uncertain
		why[0] += "; a network policy may intend that"
	}
	if len(why) > 0 {
		r.Text += ": " + strings.ReplaceAll(why[0], "\n    to list it: ", "; to list it: ")
	}
	return r
}

// reasons returns why a packet is not delivered, or that is not certain, and the rule.
func reasons(a *answer.Answer) (why []string, by path.RuleRef) {
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		if !o.Arrives() {
			why, by = append(why, a.Sentence(o)), o.By
		}
		for k := range o.Endpoints {
			if e := &o.Endpoints[k]; answer.ReplyArrives(e.Reply) != answer.Always {
				why, by = append(why, a.ReplyText(e, o.Masquerade)), e.Reply.By
			}
		}
	}
	why = append(why, a.Doubts...)
	for _, table := range a.NotFollowed {
		why = append(why, "rules of "+table+" are not followed")
	}
	return why, by
}

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
