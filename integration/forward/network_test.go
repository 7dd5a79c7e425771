package forward

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestRoutedNodesAreNotReached moves node-3 to a link of its own behind the router, and its
// endpoints are the only ones. It serves what the router sends it, but no other node can
// forward to it: neither to its address, which is no neighbour, nor to the router, which
// routes by the packet's destination and returns it.
func TestRoutedNodesAreNotReached(t *testing.T) {
	s := newForwarding(t, options{})
	s.moveThird()
	s.endpoints(s.lab.ThirdPods...)
	for name, nextHop := range map[string][2]netip.Addr{
		"node":   thirdAddrs,
		"router": {s.lab.Outside.Addr(model.IPv4), s.lab.Outside.Addr(model.IPv6)},
	} {
		for _, f := range model.Families {
			nft(t, s.lab.Node.Host, fmt.Sprintf("flush map netdev forward nodes-%[1]s; add element netdev forward nodes-%[1]s { 3 : %[2]s }",
				families[f].Name, nextHop[f]))
		}
		s.routeTo(s.lab.Node)
		daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
			if a := s.ask(t, w, s.lab.Outside.FreshPort(), short); a.Outcome == lab.Answered {
				t.Errorf("forwarded to the %s: %s", name, a)
			}
		})
	}
	for _, f := range model.Families {
		at := s.frontend(f).Addr()
		s.must(s.lab.Outside.AddRoute(netip.PrefixFrom(at, at.BitLen()), s.lab.Third.Addr(f)))
		run(t, s.lab.Outside, fmt.Sprintf("ip route replace %s via %s dev node-3", at, thirdAddrs[f]))
	}
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		if a := s.ask(t, w, s.lab.Outside.FreshPort(), patience); a.Outcome != lab.Answered || a.Seen != a.Local {
			t.Errorf("routed to node-3: %s", a)
		}
	})
}

// thirdAddrs are the addresses of node-3 after moveThird, and thirdRouter the router's.
var (
	thirdAddrs  = [2]netip.Addr{netip.MustParseAddr("192.0.3.3"), netip.MustParseAddr("2001:db8:3::3")}
	thirdRouter = [2]netip.Addr{netip.MustParseAddr("192.0.3.100"), netip.MustParseAddr("2001:db8:3::100")}
)

// moveThird takes node-3 off the link of the nodes.
func (s *scene) moveThird() {
	s.t.Helper()
	router, node := s.lab.Outside, s.lab.Third.Host
	run(s.t, router, "ip link set node-3 nomaster")
	s.set(router, "ipv4/ip_forward", "1")
	s.set(router, "ipv6/conf/all/forwarding", "1")
	for _, f := range model.Families {
		bits := 24
		if f == model.IPv6 {
			bits = 64
		}
		run(s.t, node, fmt.Sprintf("ip address flush dev eth0 to %s", lab.OutsideRanges[f]))
		run(s.t, router, fmt.Sprintf("ip address add %s/%d dev node-3", thirdRouter[f], bits))
		run(s.t, node, fmt.Sprintf("ip address add %s/%d dev eth0", thirdAddrs[f], bits))
		run(s.t, node, fmt.Sprintf("ip -%d route replace default via %s", 4+2*int(f), thirdRouter[f]))
		run(s.t, router, fmt.Sprintf("ip route replace %s via %s dev node-3", lab.ThirdPodRanges[f], thirdAddrs[f]))
	}
}

// TestNetworksThatCheckSourcesDropReplies has a switch that lets a node send only from its
// own addresses. Without it, all are answered.
func TestNetworksThatCheckSourcesDropReplies(t *testing.T) {
	s := newForwarding(t, options{})
	text := "table bridge check {\nchain input {\ntype filter hook input priority 0; policy accept;\n"
	for _, n := range s.lab.Nodes() {
		for _, f := range model.Families {
			text += fmt.Sprintf("iifname %[1]s ether type %[2]s %[2]s saddr != { %[3]s, %[4]s } counter drop\n",
				n.Name, families[f].Name, n.Addr(f), n.PodRange(f))
		}
	}
	for _, check := range []bool{false, true} {
		timeout := patience
		if check {
			nft(t, s.lab.Outside, text+"}\n}\n")
			timeout = short
		}
		daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
			if a := s.ask(t, w, s.lab.Outside.FreshPort(), timeout); (a.Outcome == lab.Answered) == check {
				t.Errorf("checked %t: %s", check, a)
			}
		})
	}
}

// TestNodePortsAnswerFromAnotherNodesAddress has a frontend at the address of node-1 itself,
// as node ports are. The other nodes must serve it, too: here, because it is also the load
// balancer's address of the Service.
func TestNodePortsAnswerFromAnotherNodesAddress(t *testing.T) {
	s := newForwarding(t, options{})
	s.service.Edit = func(o *corev1.Service) {
		o.Status.LoadBalancer.Ingress = nil
		for _, f := range model.Families {
			o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress,
				corev1.LoadBalancerIngress{IP: s.lab.Node.Addr(f).String()})
		}
	}
	s.at = [2]netip.Addr{s.lab.Node.Addr(model.IPv4), s.lab.Node.Addr(model.IPv6)}
	s.endpoints(s.pods()...)
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		if a := s.ask(t, w, s.lab.Outside.FreshPort(), patience); a.Outcome != lab.Answered || a.Seen != a.Local {
			t.Errorf("%s, from %s", a, a.Local)
		}
	})
}

// TestPodsAreServedByTheirOwnNode has clients in pods, whose packets do not come from
// outside.
func TestPodsAreServedByTheirOwnNode(t *testing.T) {
	s := newForwarding(t, options{})
	s.watch()
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for _, p := range s.pods() {
			a, err := p.AskFresh(w.Protocol, netip.Addr{}, s.frontend(w.Family), patience)
			if err != nil || a.Outcome != lab.Answered {
				t.Errorf("%s: %s %v", p, a, err)
			}
		}
	})
	for _, n := range s.lab.Nodes() {
		if forwarded := count(t, n, "forwarded"); forwarded > 0 {
			t.Errorf("%s has sent %d packets to the frontend's address", n, forwarded)
		}
	}
}
