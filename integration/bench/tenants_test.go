package bench

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
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
	{name: "endpoints-addresses-policies", services: 4 * model.MaxSlots, ports: 1, shape: exposeAll},
}

// exposeAll gives a Service every kind of address, and one of four pairs of policies.
func exposeAll(s *model.Service, i int) {
	s.LoadBalancerIPs = []netip.Addr{lab.After(balancerBase, i+1)}
	s.Ports[0].NodePort = nodePorts + uint16(i)
	s.ExternalPolicy, s.InternalPolicy = model.TrafficPolicy(i%2), model.TrafficPolicy(i/2%2)
}

// fill adds the Services to a cluster, which must have the budget.
func (h *hoard) fill(c *cluster) {
	pod := 0
	for i := range h.services {
		s := c.service(c.size.services + 10 + i)
		s.Name.Namespace, s.Created, s.Ports = "hoard", int64(i), nil
		slice := model.EndpointSlice{Name: model.EndpointSliceName(s.Name), Service: s.Name}
		for k := range h.ports {
			port := fmt.Sprint("p", k)
			s.Ports = append(s.Ports,
				model.ServicePort{Name: port, Protocol: model.TCP, Port: uint16(1 + k)})
			slice.Ports = append(slice.Ports,
				model.EndpointPort{Name: port, Protocol: model.TCP, Port: podPort})
		}
		endpoints := h.endpoints
		if endpoints == 0 {
			endpoints = 1 + i/4%model.MaxSlots
		}
		for range endpoints {
			pod++
			slice.Endpoints = append(slice.Endpoints, model.Endpoint{
				Addr: lab.After(netip.MustParseAddr("10.64.0.0"), pod), Ready: true, Serving: true, Node: thisNode,
			})
		}
		if h.shape != nil {
			h.shape(&s, i)
		}
		c.set(s, slice)
	}
}

// BenchmarkTenants measures another tenant's new Service beside a namespace that uses all of its
// budget, and 9,000 Services of others.
func BenchmarkTenants(b *testing.B) {
	labtest.Require(b)
	for _, h := range hoards {
		c := newCluster(clusterIP, size{9_000, 3})
		limited := options
		limited.Budget = sync.Budget
		c.services.SetOptions(limited)
		n, _ := newNode(b, c)
		before := settledMemory(b)
		n.follow(b, func() { h.fill(c) })
		memory := settledMemory(b) - before
		var took report.Times
		do, undo := addService(c, 0)
		for range 60 {
			took.Add(n.follow(b, do).took)
			n.follow(b, undo)
		}
		have, err := n.kernel.Read()
		must(b, err)
		chains, elements := 0, 0
		for _, t := range have {
			if t == nil {
				continue
			}
			chains += len(t.Chains)
			for _, set := range t.Sets {
				elements += len(set.Elements)
			}
		}
		report.Line(b, h.name, report.Time("ms-new-Service", took.Median(), 100*time.Millisecond),
			report.Number("chains", chains, 0), report.Number("elements", elements, 0),
			report.Number("MB", float64(memory)/1e6, 0))
	}
}
