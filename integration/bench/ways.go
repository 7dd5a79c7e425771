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

// way is an address of a Service, and what kind of Service it is.
type way struct {
	name string
	// at is the address; nil is straight to a pod, without a Service.
	at     func(*model.Service) netip.AddrPort
	policy model.TrafficPolicy
	shape  func(*model.Service) // nil leaves it as it is
}

// waysIn are the ways from a pod of the node, waysOut those from outside. The
// first one of each goes to a pod, the second one is a ClusterIP.
var (
	waysIn = []way{
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
	waysOut = []way{
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

// nodePortOf lacks the address, which is the node's.
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

// ways measures what each way to a Service adds to a connection.
func (b *bench) ways() (err error) {
	s := b.Section("Connections by way, tcp over ip, among 10,000 LoadBalancer Services with ranges", "",
		"p50", "p99", "per s", "p50/direct", "p50/ClusterIP")
	s.Note("to three pods of the node, in turns; each: connect, ask, be answered, close. Local and Cluster are policies:")
	s.Note("with Cluster, and from outside to a ClusterIP, the source is translated too")
	site, err := newSite(model.IPv4, 3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.close()) }()
	ways := slices.Concat(waysIn, waysOut)
	targets, err := site.open(ways)
	if err != nil {
		return err
	}
	speeds := make([]speed, len(ways))
	for range b.turnsOfBursts() {
		for i := range ways {
			from := site.client.Host
			if i >= len(waysIn) {
				from = site.lab.Outside
			}
			if err := speeds[i].measure(from, targets[i]); err != nil {
				return err
			}
		}
	}
	waysRows(s, "from a pod of the node", waysIn, speeds[:len(waysIn)])
	waysRows(s, "from outside", waysOut, speeds[len(waysIn):])
	return nil
}

func waysRows(s *report.Section, title string, ways []way, speeds []speed) {
	s.Add(title)
	direct, clusterIP := speeds[0].latency.Median(), speeds[1].latency.Median()
	for i, w := range ways {
		p50 := speeds[i].latency.Median()
		cells := append([]any{"  " + w.name}, speeds[i].cells()...)
		s.Add(append(cells, report.Ratio(p50, direct), report.Ratio(p50, clusterIP))...)
	}
}

// open programs a Service for each of the ways, all of the same pods, and says
// where they are.
func (s *site) open(ways []way) ([]netip.AddrPort, error) {
	f := s.family
	if err := s.lab.Outside.AddRoute(balancers[f], s.lab.Node.Addr(f)); err != nil {
		return nil, err
	}
	c := newExposed(kinds[3], standard, f)
	c.nodeAddrs = []netip.Addr{s.lab.Node.Addr(f)}
	targets := make([]netip.AddrPort, len(ways))
	for i, w := range ways {
		targets[i] = s.server[0].AddrPort(f, podPort)
		if w.at == nil {
			continue
		}
		number := served + 1 + i
		service := c.service(number)
		service.ExternalPolicy, service.SourceRanges = w.policy, nil
		if w.shape != nil {
			w.shape(&service)
		}
		c.apply(c.set(number, s.pods()))
		c.apply(c.rewrite(service))
		targets[i] = w.at(&service)
		if !targets[i].Addr().IsValid() {
			targets[i] = s.lab.Node.AddrPort(f, targets[i].Port())
		}
	}
	var err error
	s.proxy, err = newProxy(c, s.kernel)
	return targets, err
}
