package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
)

// deadNode measures how the endpoints of a node that does not answer leave, and return when it
// answers: 10 of 20 endpoints of each of 1,000 Services.
func (b *bench) deadNode() error {
	for _, f := range b.families() {
		if err := b.deadNodeOf(&cluster{size: size{1_000, 20}, serviceKind: clusterIPKind, family: f}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) deadNodeOf(c *cluster) (err error) {
	f, _, err := startLoop(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
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
		done, err := f.follow(func() error { f.unresponsive <- list; return nil })
		if err != nil {
			return err
		}
		what := c.label() + [...]string{": endpoints of a dead node leave", ": return"}[i]
		b.Promise(done.Counts.Added+done.Counts.Deleted >= 10_000, "%s: 10,000 elements and more change", what)
		b.MarkTime(what+": a transaction", done.Applied.Kernel/time.Duration(max(done.Applied.Steps, 1)),
			fmt.Sprintf("%d transactions, %s", done.Applied.Steps, report.Text(report.Bytes(done.Applied.Bytes))), 100*time.Millisecond)
	}
	return nil
}
