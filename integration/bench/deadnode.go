package main

import (
	"errors"
	"net/netip"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
)

// deadNode measures how the endpoints of a node that does not answer leave, and return when it
// answers: 10 of 20 endpoints of each of 1,000 Services.
func (b *bench) deadNode() error {
	s := b.Section("A node with 10,000 endpoints does not answer", "", "took", "kernel", "transactions", "bytes")
	for _, f := range b.families() {
		c := &cluster{size: size{services: 1_000, endpoints: 20}, serviceKind: clusterIPKind, family: f}
		if err := b.deadNodeOf(s, c); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) deadNodeOf(s *report.Section, c *cluster) (err error) {
	r, err := startLoop(c, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	leave := make([]model.UnresponsiveEndpoints, c.size.services)
	back := make([]model.UnresponsiveEndpoints, c.size.services)
	for i := range leave {
		service := c.service(i)
		back[i].Key = model.Match{Family: c.family, Addr: service.ClusterIPs[0], Protocol: model.TCP, Port: servicePort}
		leave[i].Key = back[i].Key
		for _, e := range c.podRange(i, c.endpoints/2, c.endpoints) { // in the order of addresses
			leave[i].Endpoints = append(leave[i].Endpoints, netip.AddrPortFrom(e.Addr, podPort))
		}
	}
	for i, list := range [][]model.UnresponsiveEndpoints{leave, back} {
		r.dropReport()
		r.unresponsive <- list
		done, err := r.awaitSync()
		if err = errors.Join(err, done.Err); err != nil {
			return err
		}
		what := c.label() + [...]string{": leave", ": return"}[i]
		s.Add(what, done.Took, done.Applied.Kernel, done.Applied.Steps, report.Bytes(done.Applied.Bytes))
		b.Promise(done.Counts.Added+done.Counts.Deleted >= 10_000, "%s: 10,000 elements and more change", what)
		b.MarkTime(what+": a transaction", done.Applied.Kernel/time.Duration(max(done.Applied.Steps, 1)),
			report.Text(done.Applied.Steps)+" transactions", 100*time.Millisecond)
	}
	return nil
}
