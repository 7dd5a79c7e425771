package main

import (
	"fmt"
	"net/netip"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// A hoard is a way to use the budget of a namespace: as many Services as fit.
type hoard struct {
	name             string
	services         int // at most
	ports, endpoints int // of each; zero endpoints are a number that differs, of one to 255
	shape            func(s *model.Service, i int)
}

// hoards are the ways that cost others most: what the kernel walks for each of their changes.
var hoards = []hoard{
	{name: "nothing"},
	{name: "ports", services: 1000, ports: 10_000, endpoints: 1},
	{name: "every number of endpoints, address and policy", services: 4 * model.MaxSlots, ports: 1, shape: exposeAll},
}

// exposeAll gives a Service every kind of address, and one of four pairs of policies.
func exposeAll(s *model.Service, i int) {
	s.LoadBalancerIPs = []netip.Addr{nth(balancerBase[model.IPv4], i+1)}
	s.Ports[0].NodePort = firstNodePort + uint16(i)
	s.ExternalPolicy, s.InternalPolicy = model.TrafficPolicy(i%2), model.TrafficPolicy(i/2%2)
}

// fill adds the Services to a cluster, which must have the budget.
func (h *hoard) fill(c *cluster) {
	pod := 0
	for i := range h.services {
		s := c.service(c.size.services + 10 + i)
		s.Name.Namespace, s.Created = "hoard", int64(i)
		slice := c.slice(0, 0, nil)
		slice.Name, slice.Service, slice.Ports = model.EndpointSliceName{Namespace: "hoard", Name: s.Name.Name}, s.Name, nil
		s.Ports = nil
		for k := range h.ports {
			port := fmt.Sprint("p", k)
			s.Ports = append(s.Ports, model.ServicePort{Name: port, Protocol: model.TCP, Port: uint16(1 + k)})
			slice.Ports = append(slice.Ports, model.EndpointPort{Name: port, Protocol: model.TCP, Port: podPort})
		}
		endpoints := h.endpoints
		if endpoints == 0 {
			endpoints = 1 + i/4%model.MaxSlots
		}
		for range endpoints {
			pod++
			slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: nth(netip.MustParseAddr("10.64.0.0"), pod), Ready: true, Serving: true, Node: thisNode})
		}
		if h.shape != nil {
			h.shape(&s, i)
		}
		c.apply([]sync.Event{sync.SetService{Service: s}, sync.SetSlice{Slice: slice}})
	}
}

// tenants measures what a namespace costs the others that uses all of its budget, beside
// 9,000 Services of others.
func (b *bench) tenants() error {
	s := b.Section("Beside a namespace with a full budget of", "", "another's new Service", "most", "restart: read", "chains", "elements", "memory")
	s.Note("another's new Service: plan, encode, send and commit, median and most of 60; memory: of the kernel, by the namespace")
	var alone report.Times
	for i := range hoards {
		took, err := b.beside(s, &hoards[i])
		if err != nil {
			return err
		}
		if i == 0 {
			alone = took
			continue
		}
		b.MarkTime("another's new Service beside "+hoards[i].name, took.Median(), "without "+report.Text(alone.Median()), 100*time.Millisecond)
	}
	return nil
}

// beside measures beside one namespace.
func (b *bench) beside(s *report.Section, h *hoard) (took report.Times, err error) {
	c := newClusterOf(clusterIPKind, size{9_000, 3}, model.IPv4)
	c.services.SetOptions(model.Options{DetectsPods: [2]bool{true, true}, Budget: sync.Budget})
	others := c.all()
	h.fill(c)
	err = inSandbox(func(box *sandbox) error {
		rules, batch := nft.Adopt(config, nft.Tables{}, others)
		if _, err := box.kernel.Apply(batch); err != nil {
			return err
		}
		before, err := settledMemory()
		if err != nil {
			return err
		}
		if err := box.follow(rules, c, nil); err != nil {
			return err
		}
		after, err := settledMemory()
		if err != nil {
			return err
		}
		for i := range 60 {
			c.apply(c.setService(c.size.services+1, c.pods(i, 2)))
			if err := box.follow(rules, c, &took); err != nil {
				return err
			}
			c.services.DeleteService(serviceName(c.size.services + 1))
			if err := box.follow(rules, c, nil); err != nil {
				return err
			}
		}
		start := time.Now()
		have, err := box.kernel.Read()
		if err != nil {
			return err
		}
		read := time.Since(start)
		chains, elements := count(have)
		s.Add(h.name, took.Median(), took.At(1), read, chains, elements, report.Bytes(after-before))
		return nil
	})
	return took, err
}

// follow applies what has changed, and adds the time that it took.
func (s *sandbox) follow(rules *nft.Ruleset, c *cluster, took *report.Times) error {
	change := c.changes()
	start := time.Now()
	p := rules.Plan(change)
	if _, err := s.kernel.Apply(p.Batch); err != nil {
		return err
	}
	rules.Commit(p)
	if took != nil {
		took.Add(time.Since(start))
	}
	return nil
}

// count counts what the tables of both families hold.
func count(have nft.Tables) (chains, elements int) {
	for _, t := range have {
		if t == nil {
			continue
		}
		chains += len(t.Chains)
		for _, set := range t.Sets {
			elements += len(set.Elements)
		}
	}
	return chains, elements
}
