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

// The host outside has two addresses here, one in the source ranges of the Services
// and one that is not.
var (
	allowedAddrs = [2]netip.Addr{netip.MustParseAddr("192.0.2.100"), netip.MustParseAddr("2001:db8:2::100")}
	blockedAddrs = [2]netip.Addr{netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("2001:db8:2::200")}
)

// Source ranges, some overlapping, and some with blanks around them.
var (
	withNode    = []string{"192.0.2.0/28", " 192.0.2.96/28", "192.0.2.98/31", "2001:db8:2::/123", " 2001:db8:2::100/120"}
	withoutNode = []string{"192.0.2.96/28", "2001:db8:2::100/120", " 2001:db8:2::180/121 "}
	everyone    = []string{"192.0.2.96/28", "0.0.0.0/0", "::/0"}
	halves      = []string{"0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1"}
	noClient    = []string{"255.0.0.0/32", "ffff::/128"}
	noIPv4      = []string{"255.0.0.0/32"}
)

// limited returns a Service with source ranges. It has two load balancer addresses of
// each family: the n-th one and the one after another hundred.
func limited(n int, endpoints string, ranges []string) daemon.Service {
	return daemon.Service{Number: n, EndpointSpec: endpoints, Edit: func(o *corev1.Service) {
		o.Spec.LoadBalancerSourceRanges = ranges
		for _, f := range model.Families {
			o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress,
				corev1.LoadBalancerIngress{IP: vip.at(f, n+100).Addr().String()})
		}
	}}
}

// outsideClients returns the host outside as two clients, with an address in the ranges
// and with another one.
func (s *scene) outsideClients() (allowed, blocked *client) {
	for _, a := range blockedAddrs {
		s.must(s.Outside.AddAddress(a))
	}
	return s.outside.fromOther("an allowed address outside", allowedAddrs), s.outside.fromOther("a blocked address outside", blockedAddrs)
}

func TestSourceRangesLimitLoadBalancerAddresses(t *testing.T) {
	s := newScene(t)
	allowed, blocked := s.outsideClients()
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(
		limited(1, "pod-1 remote-1", withNode),
		limited(2, "pod-1", withoutNode),
		limited(3, "", withNode),
		limited(4, "pod-1", everyone),
		limited(5, "pod-1", halves),
		limited(6, "pod-1", noClient),
		limited(7, "pod-1", noIPv4),
	)
	s.start(daemon.PodRanges, nodePortAddresses)
	all := []*client{s.pod, s.node, s.nodeOther, allowed, blocked}
	both := by(snat, "pod-1 remote-1")
	one := by(snat, "pod-1")

	t.Run("clients in a range are served at both addresses, the node too", func(t *testing.T) {
		for _, n := range []int{1, 101} {
			s.check(t, asks([]*client{allowed, s.node, s.nodeOther}, []kind{vip}, n, both))
			s.check(t, asks([]*client{blocked, s.pod}, []kind{vip}, n, isSilent))
		}
	})
	t.Run("other addresses are for all clients", func(t *testing.T) {
		s.check(t, asks(all, []kind{nodePort, nodePortToo, externalIP}, 1, both))
		s.check(t, asks([]*client{s.node, allowed, blocked}, []kind{clusterIP}, 1, both))
		s.check(t, asks([]*client{s.pod}, []kind{clusterIP}, 1, by(own, "pod-1 remote-1")))
	})
	t.Run("the node is not exempt", func(t *testing.T) {
		for _, n := range []int{2, 102} {
			s.check(t, append(asks([]*client{allowed}, []kind{vip}, n, one),
				asks([]*client{s.node, s.nodeOther, s.pod, blocked}, []kind{vip}, n, isSilent)...))
		}
	})
	t.Run("clients in no range are dropped, even without endpoints", func(t *testing.T) {
		s.check(t, append(asks([]*client{allowed, s.node}, []kind{vip}, 3, isRefused),
			asks([]*client{blocked, s.pod}, []kind{vip}, 3, isSilent)...))
		s.check(t, asks(all, []kind{clusterIP, nodePort, externalIP}, 3, isRefused))
	})
	t.Run("ranges of all addresses, also as two halves", func(t *testing.T) {
		s.check(t, append(asks(all, []kind{vip}, 4, one), asks(all, []kind{vip}, 5, one)...))
	})
	t.Run("a range without clients", func(t *testing.T) {
		s.check(t, asks(all, []kind{vip}, 6, isSilent))
		s.check(t, asks(all, []kind{nodePort, externalIP}, 6, one))
	})
	t.Run("ranges of one family do not limit the other", func(t *testing.T) {
		s.check(t, overFamilies(asks(all, []kind{vip}, 7, isSilent), asks(all, []kind{vip}, 7, one)))
	})
}

// overFamilies returns the questions over IPv4 of one list, and those over IPv6 of
// another.
func overFamilies(ip4, ip6 []cell) []cell {
	ip4 = slices.DeleteFunc(ip4, func(c cell) bool { return c.transport.Family != model.IPv4 })
	return append(ip4, slices.DeleteFunc(ip6, func(c cell) bool { return c.transport.Family != model.IPv6 })...)
}

func TestStrictSourceRangesOfOneFamilyCloseTheOther(t *testing.T) {
	if kubeProxy != "" {
		t.Skip("kube-proxy does not have this flag")
	}
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(limited(1, "pod-1", noIPv4), limited(2, "pod-1", []string{"192.0.2.0/24"}), daemon.Service{Number: 3, EndpointSpec: "pod-1"})
	s.start(daemon.PodRanges, "--strict-source-ranges")
	one := by(snat, "pod-1")
	s.check(t, asks(s.clients(), []kind{vip}, 1, isSilent))
	outsiders := []*client{s.node, s.outside}
	s.check(t, overFamilies(asks(outsiders, []kind{vip}, 2, one), asks(outsiders, []kind{vip}, 2, isSilent)))
	s.check(t, asks(s.clients(), []kind{vip}, 3, one))
	s.check(t, asks(s.clients(), []kind{nodePort, externalIP}, 1, one))
}

// TestNodeHoldingLoadBalancerAddressIsAllowed has the load balancer address on the node
// itself, which then is both source and destination.
func TestNodeHoldingLoadBalancerAddressIsAllowed(t *testing.T) {
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(limited(1, "pod-1", withNode), limited(2, "pod-1", withoutNode))
	s.start(daemon.PodRanges)
	for _, n := range []int{1, 101, 2, 102} {
		var addrs [2]netip.Addr
		for _, f := range model.Families {
			addrs[f] = vip.at(f, n).Addr()
			s.addNodeAddr(addrs[f])
		}
		want := by(snat, "pod-1")
		if n%100 == 2 {
			want = isSilent
		}
		s.check(t, asks([]*client{s.node.fromOther("the node from the load balancer address", addrs)}, []kind{vip}, n, want))
		s.check(t, asks([]*client{s.outside}, []kind{vip}, n, by(snat, "pod-1")))
	}
}

func TestEstablishedConnectionsSurviveSourceRangeChange(t *testing.T) {
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(limited(1, "pod-1", nil))
	s.start(daemon.PodRanges)
	clients := []*client{s.node, s.outside}
	var connections []*connection
	for _, c := range clients {
		for _, w := range daemon.Transports() {
			connections = append(connections, s.connect(c, w, vip.at(w.Family, 1)))
		}
	}
	for _, step := range []struct {
		name   string
		ranges []string
		others result
	}{
		{"no client is allowed", noClient, isSilent},
		{"some are", withNode, by(snat, "pod-1")},
		{"all clients are", nil, by(snat, "pod-1")},
	} {
		t.Run(step.name, func(t *testing.T) {
			s.put(limited(1, "pod-1", step.ranges))
			s.check(t, asks(clients, []kind{vip}, 1, step.others))
			for _, c := range connections {
				c.works(t)
			}
		})
	}
}

// connection is a lasting connection.
type connection struct {
	cell
	flow *lab.Flow
}

// connect connects to a server and waits for its first answer.
func (s *scene) connect(c *client, w daemon.Transport, to netip.AddrPort) *connection {
	s.t.Helper()
	k := &connection{cell: cell{name: "a connection", from: c, transport: w, to: to}}
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

// works checks that the same server still answers.
func (k *connection) works(t *testing.T) {
	t.Helper()
	a, err := k.flow.Ask(answer)
	if err != nil || a.Outcome != lab.Answered || a.By != k.want.by[0] {
		t.Errorf("%s: %s, %v, want an answer by %s", k.cell, a, err, k.want.by[0])
	}
}

// everywhere is [limited] with source ranges for all addresses, of pod-1, and some of them denied.
func everywhere(n int, ranges []string, denied string) daemon.Service {
	v := limited(n, "pod-1", ranges)
	edit := v.Edit
	v.Edit = func(o *corev1.Service) {
		edit(o)
		o.Annotations["kube-vmap.io/source-ranges"] = "all"
		o.Annotations["kube-vmap.io/denied-source-ranges"] = denied
	}
	return v
}

func TestSourceRangesLimitAllAddressesButClusterIPs(t *testing.T) {
	if kubeProxy != "" {
		t.Skip("kube-proxy does not have these annotations")
	}
	s := newScene(t)
	allowed, blocked := s.outsideClients()
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	const ofBlocked = "192.0.2.200/32, 2001:db8:2::200/128"
	var ofNode []string
	for _, f := range model.Families {
		ofNode = append(ofNode, netip.PrefixFrom(nodeAddr(f), nodeAddr(f).BitLen()).String())
	}
	deniedVIP := everywhere(5, nil, ofBlocked)
	edit := deniedVIP.Edit
	deniedVIP.Edit = func(o *corev1.Service) { edit(o); delete(o.Annotations, "kube-vmap.io/source-ranges") }
	s.put(
		everywhere(1, withNode, ""),
		everywhere(2, ofNode, ""),
		everywhere(3, nil, ofBlocked),
		everywhere(4, []string{"192.0.2.0/24", "2001:db8:2::/64"}, ofBlocked),
		deniedVIP,
		everywhere(6, nil, "192.0.2.0/24"),
		everywhere(7, nil, "0.0.0.0/0,::/0"),
		everywhere(8, noIPv4, ""),
	)
	s.start(daemon.PodRanges, nodePortAddresses)
	all, one := []*client{s.pod, s.node, s.nodeOther, allowed, blocked}, by(snat, "pod-1")
	others, external := []kind{nodePort, nodePortToo, externalIP}, []kind{vip, nodePort, nodePortToo, externalIP}
	check := func(name string, n int, kinds []kind, served, dropped []*client) {
		t.Run(name, func(t *testing.T) {
			s.check(t, append(asks(served, kinds, n, one), asks(dropped, kinds, n, isSilent)...))
			s.check(t, asks([]*client{s.node, blocked}, []kind{clusterIP}, n, one))
		})
	}
	check("ranges", 1, external, []*client{s.node, s.nodeOther, allowed}, []*client{s.pod, blocked})
	check("the node's other address is an address of its node ports", 2, []kind{nodePort, nodePortToo}, []*client{s.node, s.nodeOther},
		[]*client{s.pod, allowed, blocked})
	primary := s.node.fromOther("the node from its primary address", [...]netip.Addr{nodeAddr(model.IPv4), nodeAddr(model.IPv6)})
	check("and of nothing else", 2, []kind{vip, externalIP}, []*client{primary}, []*client{s.pod, s.nodeOther, allowed, blocked})
	check("denied", 3, external, []*client{s.pod, s.node, s.nodeOther, allowed}, []*client{blocked})
	check("denied among allowed ones", 4, external, []*client{s.node, s.nodeOther, allowed}, []*client{s.pod, blocked})
	check("denied at load balancer addresses", 5, []kind{vip}, []*client{s.pod, s.node, allowed}, []*client{blocked})
	check("and not elsewhere", 5, others, all, nil)
	t.Run("denied in one family", func(t *testing.T) {
		outside := []*client{s.node, allowed, blocked}
		s.check(t, overFamilies(asks(outside, external, 6, isSilent), asks(outside, external, 6, one)))
		s.check(t, asks([]*client{s.pod}, external, 6, one))
	})
	check("all denied", 7, external, nil, all)
	t.Run("ranges of one family", func(t *testing.T) {
		s.check(t, overFamilies(asks(all, external, 8, isSilent), asks(all, external, 8, one)))
	})
	t.Run("the ranges end", func(t *testing.T) {
		s.put(everywhere(1, nil, ""))
		s.check(t, asks(all, external, 1, one))
	})
}
