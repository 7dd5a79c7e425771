package matrix

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Of the two addresses that somebody outside has here, one is in the ranges that
// the Services name, the other is not.
var (
	allowedAddrs = [2]netip.Addr{netip.MustParseAddr("192.0.2.100"), netip.MustParseAddr("2001:db8:2::100")}
	blockedAddrs = [2]netip.Addr{netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("2001:db8:2::200")}
)

// Ranges, some of which overlap, and some with the blanks that people leave.
var (
	withNode    = []string{"192.0.2.0/28", " 192.0.2.96/28", "192.0.2.98/31", "2001:db8:2::/123", " 2001:db8:2::100/120"}
	withoutNode = []string{"192.0.2.96/28", "2001:db8:2::100/120", " 2001:db8:2::180/121 "}
	anybody     = []string{"192.0.2.96/28", "0.0.0.0/0", "::/0"}
	halves      = []string{"0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1"}
	nobody      = []string{"255.0.0.0/32", "ffff::/128"}
	nobodyOver4 = []string{"255.0.0.0/32"}
)

// limited is a Service whose load balancer addresses are for these ranges only.
// It has two addresses of each family: the n-th and the one a hundred behind it.
func limited(n int, endpoints string, ranges []string) daemon.Service {
	return daemon.Service{Number: n, EndpointSpec: endpoints, Edit: func(o *corev1.Service) {
		o.Spec.LoadBalancerSourceRanges = ranges
		for _, f := range model.Families {
			o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress,
				corev1.LoadBalancerIngress{IP: vip.at(f, n+100).Addr().String()})
		}
	}}
}

// askers are those that the ranges tell apart. Somebody outside has two addresses
// from now on.
func (s *scene) askers() (allowed, blocked *client) {
	for _, a := range blockedAddrs {
		s.must(s.Outside.AddAddress(a))
	}
	return s.outside.fromOther("an allowed address outside", allowedAddrs), s.outside.fromOther("a blocked address outside", blockedAddrs)
}

func TestSourceRangesLimitWhoReachesALoadBalancerAddress(t *testing.T) {
	s := newScene(t)
	allowed, blocked := s.askers()
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(
		limited(1, "pod-1 remote-1", withNode),
		limited(2, "pod-1", withoutNode),
		limited(3, "", withNode),
		limited(4, "pod-1", anybody),
		limited(5, "pod-1", halves),
		limited(6, "pod-1", nobody),
		limited(7, "pod-1", nobodyOver4),
	)
	s.start(daemon.PodRanges, nodePortAddresses)
	everyone := []*client{s.pod, s.node, s.nodeToo, allowed, blocked}
	both := by(snat, "pod-1 remote-1")
	one := by(snat, "pod-1")

	t.Run("who is in a range is served at both addresses, the node too", func(t *testing.T) {
		for _, n := range []int{1, 101} {
			s.check(t, asks([]*client{allowed, s.node, s.nodeToo}, []kind{vip}, n, both))
			s.check(t, asks([]*client{blocked, s.pod}, []kind{vip}, n, isSilent))
		}
	})
	t.Run("other addresses are for everybody", func(t *testing.T) {
		s.check(t, asks(everyone, []kind{nodePort, nodePortToo, externalIP}, 1, both))
		s.check(t, asks([]*client{s.node, allowed, blocked}, []kind{clusterIP}, 1, both))
		s.check(t, asks([]*client{s.pod}, []kind{clusterIP}, 1, by(own, "pod-1 remote-1")))
	})
	t.Run("the node is no exception", func(t *testing.T) {
		for _, n := range []int{2, 102} {
			s.check(t, append(asks([]*client{allowed}, []kind{vip}, n, one),
				asks([]*client{s.node, s.nodeToo, s.pod, blocked}, []kind{vip}, n, isSilent)...))
		}
	})
	t.Run("who is in no range does not hear that there are no endpoints", func(t *testing.T) {
		s.check(t, append(asks([]*client{allowed, s.node}, []kind{vip}, 3, isRefused),
			asks([]*client{blocked, s.pod}, []kind{vip}, 3, isSilent)...))
		s.check(t, asks(everyone, []kind{clusterIP, nodePort, externalIP}, 3, isRefused))
	})
	t.Run("everybody is in a range of all addresses, or in one of two halves", func(t *testing.T) {
		s.check(t, append(asks(everyone, []kind{vip}, 4, one), asks(everyone, []kind{vip}, 5, one)...))
	})
	t.Run("nobody is in a range of nobody", func(t *testing.T) {
		s.check(t, asks(everyone, []kind{vip}, 6, isSilent))
		s.check(t, asks(everyone, []kind{nodePort, externalIP}, 6, one))
	})
	t.Run("ranges of one family leave the other open", func(t *testing.T) {
		s.check(t, overFamilies(asks(everyone, []kind{vip}, 7, isSilent), asks(everyone, []kind{vip}, 7, one)))
	})
}

// overFamilies takes the questions over IPv4 from one list, and those over IPv6
// from another.
func overFamilies(ip4, ip6 []cell) []cell {
	ip4 = slices.DeleteFunc(ip4, func(c cell) bool { return c.transport.Family != model.IPv4 })
	return append(ip4, slices.DeleteFunc(ip6, func(c cell) bool { return c.transport.Family != model.IPv6 })...)
}

func TestStrictSourceRangesOfOneFamilyCloseTheOther(t *testing.T) {
	if kubeProxy != "" {
		t.Skip("kube-proxy does not have it")
	}
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(limited(1, "pod-1", nobodyOver4), limited(2, "pod-1", []string{"192.0.2.0/24"}), daemon.Service{Number: 3, EndpointSpec: "pod-1"})
	s.start(daemon.PodRanges, "--strict-source-ranges")
	one := by(snat, "pod-1")
	s.check(t, asks(s.clients(), []kind{vip}, 1, isSilent))
	outsiders := []*client{s.node, s.outside}
	s.check(t, overFamilies(asks(outsiders, []kind{vip}, 2, one), asks(outsiders, []kind{vip}, 2, isSilent)))
	s.check(t, asks(s.clients(), []kind{vip}, 3, one))
	s.check(t, asks(s.clients(), []kind{nodePort, externalIP}, 1, one))
}

// TestANodeThatHoldsTheAddressIsAllowedWithIt has the load balancer address on
// the node itself, which then connects from there to there.
func TestANodeThatHoldsTheAddressIsAllowedWithIt(t *testing.T) {
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(limited(1, "pod-1", withNode), limited(2, "pod-1", withoutNode))
	s.start(daemon.PodRanges)
	for _, n := range []int{1, 101, 2, 102} {
		var addrs [2]netip.Addr
		for _, f := range model.Families {
			addrs[f] = vip.at(f, n).Addr()
			s.giveNode(addrs[f])
		}
		want := by(snat, "pod-1")
		if n%100 == 2 {
			want = isSilent
		}
		s.check(t, asks([]*client{s.node.fromOther("the node from the load balancer address", addrs)}, []kind{vip}, n, want))
		s.check(t, asks([]*client{s.outside}, []kind{vip}, n, by(snat, "pod-1")))
	}
}

func TestEstablishedConnectionsOutliveTheirSourceRange(t *testing.T) {
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(limited(1, "pod-1", nil))
	s.start(daemon.PodRanges)
	clients := []*client{s.node, s.outside}
	var talks []*talk
	for _, c := range clients {
		for _, w := range daemon.Transports() {
			talks = append(talks, s.talk(c, w, vip.at(w.Family, 1)))
		}
	}
	for _, step := range []struct {
		says   string
		ranges []string
		others result
	}{
		{"nobody is allowed", nobody, isSilent},
		{"some are", withNode, by(snat, "pod-1")},
		{"everybody is", nil, by(snat, "pod-1")},
	} {
		t.Run(step.says, func(t *testing.T) {
			s.put(limited(1, "pod-1", step.ranges))
			s.check(t, asks(clients, []kind{vip}, 1, step.others))
			for _, c := range talks {
				c.goesOn(t)
			}
		})
	}
}

// talk is a connection that lasts.
type talk struct {
	cell
	flow *lab.Flow
}

// talk makes a connection to a server, which has answered once.
func (s *scene) talk(c *client, w daemon.Transport, to netip.AddrPort) *talk {
	s.t.Helper()
	k := &talk{cell: cell{says: "a connection", from: c, transport: w, to: to}}
	var err error
	if k.flow, err = c.Flow(w.Protocol, netip.AddrPortFrom(c.from[w.Family], c.FreshPort()), to); err != nil {
		s.t.Fatal(err)
	}
	a, err := k.flow.Ask(answer)
	if err != nil || a.Outcome != lab.Answered {
		s.t.Fatalf("%s: %s, %v", k.cell, a, err)
	}
	k.want = by(anySource, a.By)
	return k
}

// goesOn checks that who answered first still does.
func (k *talk) goesOn(t *testing.T) {
	t.Helper()
	a, err := k.flow.Ask(answer)
	if err != nil || a.Outcome != lab.Answered || a.By != k.want.by[0] {
		t.Errorf("%s: %s, %v, want an answer by %s", k.cell, a, err, k.want.by[0])
	}
}
