package main

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// addressKind is a kind of address at which clients reach a Service.
type addressKind struct {
	name string
	// at returns the address; nil means a pod's own address, without a Service.
	at     func(*model.Service) netip.AddrPort
	policy model.TrafficPolicy
	shape  func(*model.Service) // nil leaves it as it is
}

// Kinds of addresses for a client in a pod of the node, and for one outside. The first of
// each is a pod's own address, the second a ClusterIP.
var (
	podAddressKinds = []addressKind{
		{name: "straight to the pod"},
		{name: "ClusterIP", at: clusterIPOf},
		{name: "load balancer, Local", at: balancerOf, policy: model.PolicyLocal},
		{name: "load balancer, Local, ranges", at: balancerOf, policy: model.PolicyLocal, shape: limited},
		{name: "node port, Local", at: nodePortOf, policy: model.PolicyLocal},
		{name: "load balancer, Cluster", at: balancerOf},
		{name: "node port, Cluster", at: nodePortOf},
		{name: "ClusterIP, affinity", at: clusterIPOf, shape: sticky},
		{name: "load balancer, Local, affinity", at: balancerOf, policy: model.PolicyLocal, shape: sticky},
		{name: "ClusterIP, rr", at: clusterIPOf, shape: scheduled(model.SchedulerRoundRobin)},
		{name: "ClusterIP, sh", at: clusterIPOf, shape: scheduled(model.SchedulerSourceHash)},
		{name: "ClusterIP, mh", at: clusterIPOf, shape: scheduled(model.SchedulerMaglev)},
	}
	outsideAddressKinds = []addressKind{
		{name: "straight to the pod"},
		{name: "ClusterIP", at: clusterIPOf},
		{name: "load balancer, Local", at: balancerOf, policy: model.PolicyLocal},
		{name: "load balancer, Local, ranges", at: balancerOf, policy: model.PolicyLocal, shape: limited},
		{name: "node port, Local", at: nodePortOf, policy: model.PolicyLocal},
		{name: "load balancer, Cluster", at: balancerOf},
		{name: "node port, Cluster", at: nodePortOf},
	}
)

func clusterIPOf(s *model.Service) netip.AddrPort {
	return netip.AddrPortFrom(s.ClusterIPs[0], servicePort)
}

func balancerOf(s *model.Service) netip.AddrPort {
	return netip.AddrPortFrom(s.LoadBalancerIPs[0], servicePort)
}

// nodePortOf returns the node port without the node's address.
func nodePortOf(s *model.Service) netip.AddrPort {
	return netip.AddrPortFrom(netip.Addr{}, s.Ports[0].NodePort)
}

// limited admits the client among many others.
func limited(s *model.Service) {
	clients := []netip.Prefix{lab.PodRanges[model.IPv4], lab.OutsideRanges[model.IPv4]}
	s.SourceRanges = append(sourceRanges(model.IPv4, 0, manyRanges), clients...)
}

func sticky(s *model.Service) { s.Affinity = 3 * time.Hour }

func scheduled(by model.Scheduler) func(*model.Service) {
	return func(s *model.Service) { s.Scheduler = by }
}

// addresses measures what each kind of address adds to a connection.
func (b *bench) addresses() (err error) {
	s := b.Section("Connections by kind of address, tcp over ip, among 10,000 LoadBalancer Services with ranges", "",
		"p50", "p99", "per s", "p50/direct", "p50/ClusterIP")
	s.Note("to three pods of the node, in turns; each: connect, request, response, close. Local and Cluster are policies:")
	s.Note("with Cluster, and from outside to a ClusterIP, the source is translated too")
	node, err := newLabNode(model.IPv4, 3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.close()) }()
	ways := slices.Concat(podAddressKinds, outsideAddressKinds)
	targets, err := node.programAll(ways)
	if err != nil {
		return err
	}
	speeds := make([]burstTimes, len(ways))
	for range b.burstRepetitions() {
		for i := range ways {
			from := node.client.Host
			if i >= len(podAddressKinds) {
				from = node.lab.Outside
			}
			if err := speeds[i].measure(from, targets[i]); err != nil {
				return err
			}
		}
	}
	addressRows(s, "from a pod of the node", podAddressKinds, speeds[:len(podAddressKinds)])
	addressRows(s, "from outside", outsideAddressKinds, speeds[len(podAddressKinds):])
	return nil
}

func addressRows(s *report.Section, title string, ways []addressKind, speeds []burstTimes) {
	s.Add(title)
	direct, clusterIP := speeds[0].latency.Median(), speeds[1].latency.Median()
	for i, w := range ways {
		p50 := speeds[i].latency.Median()
		cells := append([]any{"  " + w.name}, speeds[i].cells()...)
		s.Add(append(cells, report.Ratio(p50, direct), report.Ratio(p50, clusterIP))...)
	}
}

// programAll programs a Service for each kind of address, all with the same pods, and
// returns the addresses.
func (s *labNode) programAll(ways []addressKind) ([]netip.AddrPort, error) {
	f := s.family
	if err := s.lab.Outside.AddRoute(balancers[f], s.lab.Node.Addr(f)); err != nil {
		return nil, err
	}
	c := newExposed(serviceKinds[3], standard, f)
	c.nodeAddrs = []netip.Addr{s.lab.Node.Addr(f)}
	targets := make([]netip.AddrPort, len(ways))
	for i, w := range ways {
		targets[i] = s.server[0].AddrPort(f, podPort)
		if w.at == nil {
			continue
		}
		number := servedService + 1 + i
		service := c.service(number)
		service.ExternalPolicy, service.SourceRanges = w.policy, nil
		if w.shape != nil {
			w.shape(&service)
		}
		c.apply(c.setService(number, s.pods()))
		c.apply(c.updateService(service))
		targets[i] = w.at(&service)
		if !targets[i].Addr().IsValid() {
			targets[i] = s.lab.Node.AddrPort(f, targets[i].Port())
		}
	}
	var err error
	s.proxy, err = newProxy(c, s.kernel)
	return targets, err
}
