package matrix

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// holdOutside adds an address of the n-th Service, of each family, to the host outside,
// with servers on some ports: they answer packets that the proxy does not translate, as
// the real owner of the address would.
func (s *scene) holdOutside(k kind, n int, ports ...int) {
	s.t.Helper()
	for _, f := range model.Families {
		s.must(s.Outside.AddAddress(k.at(f, n).Addr()))
		for _, p := range model.Protocols {
			for _, port := range ports {
				_, err := s.Outside.ServeAt(p, addrPort(k.at(f, n).Addr(), port))
				s.must(err)
			}
		}
	}
}

// inside returns the clients that reach the host outside through the node.
func (s *scene) inside() []*client { return []*client{s.pod, s.node} }

// of returns the questions over some protocols.
func of(cells []cell, protocols ...model.Protocol) []cell {
	return slices.DeleteFunc(cells, func(c cell) bool { return !slices.Contains(protocols, c.transport.Protocol) })
}

// asksPort returns the questions to a port of the n-th Service.
func asksPort(clients []*client, kinds []kind, n, port, nodePort int, want result) []cell {
	var all []cell
	for _, k := range kinds {
		at := func(f model.Family) netip.AddrPort { return k.port(f, n, port, nodePort) }
		for _, c := range asksAt(clients, at, want) {
			c.name = k.String()
			all = append(all, c)
		}
	}
	return all
}

// TestPortsAreIndependent has ports of the same number and NodePort over every
// protocol, each with its own endpoints and target port.
func TestPortsAreIndependent(t *testing.T) {
	s := newScene(t)
	s.must(s.Pods[0].ServeAll(daemon.TargetPort + 1))
	s.must(s.Node.ServeAll(daemon.TargetPort)) // an SCTP listener refuses other ports
	s.holdOutside(vip, 2, port, port+1)
	s.holdOutside(externalIP, 2, port, port+1)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	twins := daemon.EveryProtocol("", port, daemon.TargetPort, nodePorts+1)
	for i, endpoints := range []string{"pod-1", "pod-2", "remote-1"} {
		twins[i].EndpointSpec = endpoints
	}
	more := daemon.EveryProtocol("more-", port+1, daemon.TargetPort+1, nodePorts+101)
	for i := range more {
		more[i].EndpointSpec = "pod-1"
	}
	onlyTCP := []daemon.ServicePort{{Name: "tcp", Protocol: model.TCP, Port: port, Target: daemon.TargetPort, NodePort: nodePorts + 2}}
	s.put(
		daemon.Service{Number: 1, ServicePorts: append(twins, more...)},
		daemon.Service{Number: 2, EndpointSpec: "pod-3", ServicePorts: onlyTCP},
	)
	s.start(daemon.PodRanges, nodePortAddresses)

	for i, p := range model.Protocols {
		t.Run(p.String()+" has its own endpoints", func(t *testing.T) {
			s.check(t, of(asks(s.clients(), kinds, 1, by(anySource, twins[i].EndpointSpec)), p))
			s.check(t, of(asksPort(s.clients(), kinds, 1, port+1, nodePorts+101, by(anySource, "pod-1")), p))
		})
	}
	t.Run("a port of one protocol is no port of another", func(t *testing.T) {
		s.check(t, of(asks(s.clients(), []kind{clusterIP}, 2, by(anySource, "pod-3")), model.TCP))
		s.check(t, of(asks(s.inside(), usual, 2, by(anySource, "pod-3")), model.TCP))
		s.check(t, of(asks(s.clients(), []kind{clusterIP, nodePort}, 2, isRefused), model.UDP, model.SCTP))
		s.check(t, of(asks(s.inside(), []kind{vip, externalIP}, 2, by(anySource, "outside")), model.UDP, model.SCTP))
	})
	t.Run("a Service does not accept the port of another", func(t *testing.T) {
		s.check(t, asksPort(s.clients(), []kind{clusterIP}, 2, port+1, 0, isRefused))
		s.check(t, asksPort(s.inside(), []kind{vip, externalIP}, 2, port+1, 0, by(anySource, "outside")))
	})
	t.Run("a target port is not a port", func(t *testing.T) {
		s.check(t, asksPort(s.clients(), []kind{clusterIP}, 1, daemon.TargetPort, 0, isRefused))
	})
	t.Run("an address of no Service drops", func(t *testing.T) {
		s.check(t, asks(s.clients(), []kind{clusterIP}, 99, isSilent))
	})
}

// TestUnknownPortsOfExternalAddressesAreNotSentBack has clients whose packets node-1 would send back by
// the interface they came from, towards the owner of the address: node-2, and a pod whose packets the
// host outside returns to node-1.
func TestUnknownPortsOfExternalAddressesAreNotSentBack(t *testing.T) {
	if kubeProxy != "" {
		t.Skip("kube-proxy sends them back")
	}
	s := newScene(t)
	across := &client{Host: s.Remote.Host, name: "node-2, by way of node-1"}
	external := []kind{vip, externalIP}
	alone := func(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
	for _, k := range external {
		s.holdOutside(k, 1, port+1)
		for _, f := range model.Families {
			s.must(s.Remote.AddRoute(alone(k.at(f, 1).Addr()), nodeAddr(f)))
		}
	}
	other := func(clients []*client, n int, want result) []cell {
		return asksPort(clients, external, n, port+1, 0, want)
	}
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.start(daemon.PodRanges)
	t.Run("without a Service", func(t *testing.T) { s.check(t, other([]*client{across}, 1, by(anySource, "outside"))) })
	s.put(daemon.Service{Number: 1, EndpointSpec: "pod-1"}, daemon.Service{Number: 2})
	t.Run("a port that it has", func(t *testing.T) {
		s.check(t, asks([]*client{across}, external, 1, by(anySource, "pod-1")))
		s.check(t, asks([]*client{s.outside}, external, 2, isRefused))
	})
	t.Run("another port", func(t *testing.T) {
		s.check(t, other([]*client{across}, 1, isSilent))
		s.check(t, other(s.inside(), 1, by(anySource, "outside"))) // as if a load balancer were there
	})
	t.Run("a loop", func(t *testing.T) {
		labtest.Run(t, s.Outside, "", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
		labtest.Run(t, s.Outside, "table inet loops { chain c { type filter hook prerouting priority 0; udp dport 81 counter; }; }", "nft", "-f", "-")
		for _, f := range model.Families {
			if a, err := s.pod.ask(daemon.Transport{Protocol: model.UDP, Family: f}, vip.port(f, 2, port+1, 0), silence); err != nil || a.Outcome != lab.TimedOut {
				t.Errorf("%s: %v, %v", f, a, err)
			}
		}
		if list := labtest.Run(t, s.Outside, "", "nft", "list", "table", "inet", "loops"); !strings.Contains(list, "counter packets 2 ") {
			t.Errorf("the host outside saw packets more than once:\n%s", list)
		}
	})
	t.Run("an address of the node", func(t *testing.T) {
		for _, f := range model.Families {
			s.must(s.Node.AddAddress(vip.at(f, 1).Addr()))
			for _, p := range model.Protocols {
				_, err := s.Node.ServeAt(p, vip.port(f, 1, port+1, 0))
				s.must(err)
			}
		}
		s.check(t, asksPort([]*client{across}, []kind{vip}, 1, port+1, 0, by(anySource, "node-1")))
	})
}

// TestMoreEndpointsThanSlotsAnswer has pods that serve at so many ports that their endpoints are
// in another kind of map, then at few, and at many again.
func TestMoreEndpointsThanSlotsAnswer(t *testing.T) {
	const first, ports = 20000, 100
	s := newScene(t)
	for _, h := range []*lab.Host{s.Pods[0].Host, s.Pods[1].Host, s.RemotePods[0].Host} {
		for n := range uint16(ports) {
			s.must(h.ServeAll(first + n))
		}
	}
	many := daemon.Service{Number: 1, EndpointSpec: "pod-1 pod-2 remote-1", ServicePorts: daemon.EveryProtocol("", port, first, nodePorts+1)}
	for i, times := range []int{ports, 10, ports} {
		many.Times = times
		s.put(many)
		if i == 0 {
			s.start(daemon.PodRanges)
		}
		s.check(t, asks(s.clients(), usual, 1, by(anySource, many.EndpointSpec)))
	}
}

// TestServicesShareAnAddressByPortAndProtocol removes one of the Services at the end.
func TestServicesShareAnAddressByPortAndProtocol(t *testing.T) {
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	sharing := func(n int, endpoints string, ports ...daemon.ServicePort) daemon.Service {
		return daemon.Service{Number: n, EndpointSpec: endpoints, ServicePorts: ports, Edit: func(o *corev1.Service) {
			o.Spec.ExternalIPs, o.Status = nil, corev1.ServiceStatus{}
			for _, f := range model.Families {
				o.Spec.ExternalIPs = append(o.Spec.ExternalIPs, externalIP.at(f, 1).Addr().String())
				o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress,
					corev1.LoadBalancerIngress{IP: vip.at(f, 1).Addr().String()})
			}
		}}
	}
	web := sharing(1, "pod-1", daemon.EveryProtocol("web-", port, daemon.TargetPort, nodePorts+1)...)
	admin := sharing(2, "pod-2", daemon.EveryProtocol("admin-", port+1, daemon.TargetPort, nodePorts+2)...)
	third := func(p model.Protocol) []daemon.ServicePort {
		return []daemon.ServicePort{{Name: "dns", Protocol: p, Port: port + 2, Target: daemon.TargetPort}}
	}
	overTCP := sharing(3, "pod-1", third(model.TCP)...)
	overUDP := sharing(4, "pod-2", third(model.UDP)...)
	overSCTP := sharing(5, "pod-3", third(model.SCTP)...)
	s.put(web, admin, overTCP, overUDP, overSCTP)
	s.start(daemon.PodRanges)
	shared := []kind{vip, externalIP}
	t.Run("together", func(t *testing.T) {
		s.check(t, asks(s.clients(), shared, 1, by(snat, "pod-1")))
		s.check(t, asksPort(s.clients(), shared, 1, port+1, 0, by(snat, "pod-2")))
		for i, p := range model.Protocols {
			who := []string{"pod-1", "pod-2", "pod-3"}[i]
			s.check(t, of(asksPort(s.clients(), shared, 1, port+2, 0, by(snat, who)), p))
		}
	})
	s.holdOutside(vip, 1, port, port+1)
	s.holdOutside(externalIP, 1, port, port+1)
	s.put(admin, overUDP)
	t.Run("without the first", func(t *testing.T) {
		s.check(t, asks(s.inside(), shared, 1, by(anySource, "outside")))
		s.check(t, asksPort(s.inside(), shared, 1, port+1, 0, by(snat, "pod-2")))
		s.check(t, of(asksPort(s.inside(), shared, 1, port+2, 0, by(snat, "pod-2")), model.UDP))
	})
}

// TestAddressesAreServedWhateverTheType tests fields of a Service that apply to every
// type.
func TestAddressesAreServedWhateverTheType(t *testing.T) {
	s := newScene(t)
	s.must(s.Node.ServeAll(daemon.TargetPort)) // an SCTP listener refuses other ports
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	withoutNodePorts := func(o *corev1.Service) {
		for i := range o.Spec.Ports {
			o.Spec.Ports[i].NodePort = 0
		}
	}
	inner := func(o *corev1.Service) {
		withoutNodePorts(o)
		o.Spec.Type, o.Status = corev1.ServiceTypeClusterIP, corev1.ServiceStatus{}
	}
	hostname := func(o *corev1.Service) {
		o.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example"}}
	}
	s.put(
		daemon.Service{Number: 1, EndpointSpec: "pod-1 remote-1", Edit: withoutNodePorts},
		daemon.Service{Number: 2, EndpointSpec: "pod-1 remote-1", LocalOutside: true, Edit: inner},
		daemon.Service{Number: 3, EndpointSpec: "remote-1", LocalOutside: true, Edit: inner},
		daemon.Service{Number: 4, EndpointSpec: "pod-1", Edit: hostname},
	)
	s.start(daemon.PodRanges)
	t.Run("a load balancer needs no NodePorts", func(t *testing.T) {
		s.check(t, asks(s.clients(), []kind{vip, externalIP}, 1, by(snat, "pod-1 remote-1")))
		s.check(t, asks(s.clients(), []kind{nodePort}, 1, isRefused))
	})
	t.Run("externalTrafficPolicy applies to external IPs of a ClusterIP Service", func(t *testing.T) {
		s.check(t, asks([]*client{s.pod}, []kind{externalIP}, 2, by(own, "pod-1 remote-1")))
		s.check(t, asks([]*client{s.node}, []kind{externalIP}, 2, by(snat, "pod-1 remote-1")))
		s.check(t, asks([]*client{s.outside}, []kind{externalIP}, 2, by(own, "pod-1")))
		s.check(t, asks([]*client{s.outside}, []kind{externalIP}, 3, isSilent))
		s.check(t, asks(s.inside(), []kind{externalIP}, 3, by(anySource, "remote-1")))
	})
	t.Run("a hostname is not an address", func(t *testing.T) {
		s.check(t, asks(s.clients(), []kind{clusterIP, nodePort, externalIP}, 4, by(anySource, "pod-1")))
	})
}

// TestUnassignedServiceCIDRAddressesAreDropped has a server at such an address, which
// answers while no ServiceCIDR contains it. Connections from before continue.
func TestUnassignedServiceCIDRAddressesAreDropped(t *testing.T) {
	if kubeProxy != "" {
		t.Skip("kube-proxy writes such a change with its next sync, up to an hour later")
	}
	s := newScene(t)
	s.holdOutside(clusterIP, 99, port)
	s.put(daemon.Service{Number: 1, EndpointSpec: "pod-1"})
	s.cluster(daemon.NodeObject(s.Node, ""))
	s.start(daemon.PodRanges)
	var connections []*connection
	for _, step := range []struct {
		name    string
		objects []any
		want    result
	}{
		{"no range", []any{daemon.NodeObject(s.Node, "")}, by(anySource, "outside")},
		{"with the range", []any{daemon.NodeObject(s.Node, ""), daemon.ServiceCIDR()}, isSilent},
		{"range removed", []any{daemon.NodeObject(s.Node, "")}, by(anySource, "outside")},
	} {
		t.Run(step.name, func(t *testing.T) {
			s.cluster(step.objects...)
			s.announce()
			s.settles()
			cells := asks(s.inside(), []kind{clusterIP}, 99, step.want)
			s.check(t, slices.Clone(cells))
			if connections == nil {
				for _, c := range cells {
					connections = append(connections, s.connect(c.from, c.transport, c.to))
				}
			}
			for _, c := range connections {
				c.works(t)
			}
			s.check(t, asks(s.clients(), usual, 1, by(anySource, "pod-1")))
		})
	}
}

// TestHostsInServiceCIDRsAreReached has ServiceCIDRs that contain the network of the nodes and the
// ranges of pods, as kubeadm's default contains 10.100.0.0/24.
func TestHostsInServiceCIDRsAreReached(t *testing.T) {
	if kubeProxy != "" {
		t.Skip("kube-proxy drops connections to them")
	}
	s := newScene(t)
	s.holdOutside(clusterIP, 99, port)
	s.must(s.Outside.ServeAll(daemon.TargetPort))
	s.must(s.Node.ServeAll(daemon.TargetPort))
	wide := daemon.ServiceCIDR()
	wide.Spec.CIDRs = []string{"10.0.0.0/8", "192.0.0.0/16", "fd00::/8", "2001:db8::/32"}
	s.cluster(wide, daemon.NodeObject(s.Node, ""))
	s.put(daemon.Service{Number: 1, EndpointSpec: "pod-1 remote-1"}, daemon.Service{Number: 2, EndpointSpec: "node-1"})
	s.start(daemon.PodRanges)
	at := func(h *lab.Host) func(model.Family) netip.AddrPort {
		return func(f model.Family) netip.AddrPort { return addrPort(h.Addr(f), daemon.TargetPort) }
	}
	t.Run("through Services", func(t *testing.T) {
		s.check(t, asks(s.clients(), usual, 1, by(anySource, "pod-1 remote-1")))
		s.check(t, asks(s.clients(), usual, 2, by(anySource, "node-1")))
	})
	t.Run("directly", func(t *testing.T) {
		s.check(t, asksAt(s.inside(), at(s.Outside), by(anySource, "outside")))
		s.check(t, asksAt([]*client{s.pod, s.outside}, at(s.Node.Host), by(anySource, "node-1")))
		s.check(t, asksAt(s.inside(), at(s.RemotePods[0].Host), by(anySource, "remote-1")))
	})
	t.Run("unused ClusterIPs are dropped", func(t *testing.T) {
		s.check(t, asks(s.inside(), []kind{clusterIP}, 99, isSilent))
	})
}

// TestConnectionsFromBeforeALoadBalancerAddressAreServed has clients that send their SYN again until
// the load balancer's address, where nothing answers before, is programmed.
func TestConnectionsFromBeforeALoadBalancerAddressAreServed(t *testing.T) {
	if kubeProxy != "" {
		t.Skip("with kube-proxy they time out")
	}
	s := newScene(t)
	for _, f := range model.Families {
		a := vip.at(f, 1).Addr()
		alone := netip.PrefixFrom(a, a.BitLen())
		s.must(s.Node.AddRoute(alone, s.Outside.Addr(f)))
		s.ipOutside("route", "replace", "blackhole", alone.String())
	}
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.start(daemon.PodRanges)
	const patience = time.Minute
	answers, asked := make(chan error), 0
	entries := conntrack.New(conntrack.Config{NetNS: s.Node.FD()})
	for _, w := range daemon.Transports() {
		if w.Protocol != model.TCP {
			continue // package lab sends a first packet of the others once
		}
		to := addrPort(vip.at(w.Family, 1).Addr(), port)
		asked++
		go func() {
			a, err := s.pod.ask(w, to, patience)
			if err == nil && a.By != "pod-1" {
				err = fmt.Errorf("%s by %q", a.Outcome, a.By)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", w, err)
			}
			answers <- err
		}()
		eventually.Holds(t, "the first packet has passed", func() bool {
			list, err := entries.List(conntrack.Query{Family: w.Family, Protocol: w.Protocol}, func(e conntrack.Entry) bool { return e.Original == to })
			return err == nil && len(list) > 0
		})
	}
	s.put(daemon.Service{Number: 1, EndpointSpec: "pod-1"})
	for range asked {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

// TestEndpointCanHaveTheServiceAddress has an ingress on the node's own network: it
// serves at the address that clients use, so that there is nothing to translate.
func TestEndpointCanHaveTheServiceAddress(t *testing.T) {
	const ownNodePort = 30301
	s := newScene(t)
	s.must(s.Node.ServeAll(port))
	s.must(s.Node.ServeAll(ownNodePort))
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.start(daemon.PodRanges, nodePortAddresses)
	atNode := daemon.EveryProtocol("", port, port, nodePorts+1)
	atNodePort := daemon.EveryProtocol("own-", port+1, ownNodePort, ownNodePort)
	own := func(o *corev1.Service) {
		o.Spec.ExternalIPs, o.Status.LoadBalancer.Ingress = nil, nil
		for _, f := range model.Families {
			o.Spec.ExternalIPs = append(o.Spec.ExternalIPs, s.Node.Addr(f).String())
		}
	}
	for name, affinity := range map[string]time.Duration{"picked at random": 0, "remembered": time.Hour} {
		t.Run(name, func(t *testing.T) {
			s.put(daemon.Service{
				Number: 1, ServicePorts: append(atNode, atNodePort...), EndpointSpec: "node-1", Edit: own, Affinity: affinity,
			})
			for _, number := range []int{port, ownNodePort, nodePorts + 1} {
				at := func(f model.Family) netip.AddrPort { return addrPort(s.Node.Addr(f), number) }
				s.check(t, asksAt(s.clients(), at, by(anySource, "node-1")))
			}
			s.check(t, asks(s.clients(), []kind{clusterIP}, 1, by(anySource, "node-1")))
		})
	}
}
