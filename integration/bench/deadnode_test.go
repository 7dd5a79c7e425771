package bench

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// BenchmarkDeadNode measures how the endpoints of a node that does not answer leave, and return
// when it answers: 10 of 20 endpoints of each of 1,000 Services.
func BenchmarkDeadNode(b *testing.B) {
	labtest.Require(b)
	c := newCluster(clusterIP, size{1_000, 20})
	avoiding := options
	avoiding.PassiveChecks, avoiding.MaxAvoidedPercent = model.PassiveChecksAvoid, 50
	c.services.SetOptions(avoiding)
	n, _ := newNode(b, c)
	leave, back := make([]model.Overlay, c.size.services), make([]model.Overlay, c.size.services)
	for i := range leave {
		u := model.UnresponsiveEndpoints{
			Key: model.Match{Addr: c.service(i).ClusterIPs[0], Protocol: model.TCP, Port: servicePort},
		}
		back[i] = u
		for j := c.endpoints / 2; j < c.endpoints; j++ { // in the order of addresses
			u.Endpoints = append(u.Endpoints, netip.AddrPortFrom(c.pod(i, j).Addr, podPort))
		}
		leave[i] = u
	}
	for _, change := range []struct {
		name string
		list []model.Overlay
	}{{"leave", leave}, {"return", back}} {
		s := n.follow(b, func() { c.services.SetOverlays(change.list) })
		if counts := s.batch.Counts(); counts.Added+counts.Deleted < 10_000 {
			b.Errorf("%s: only %+v change", change.name, counts)
		}
		each := s.Kernel / time.Duration(s.Steps)
		report.Line(b, change.name, report.Time("ms-each", each, 100*time.Millisecond),
			report.Number("transactions", s.Steps, 0), report.Number("kB", s.Bytes/1000, 0))
	}
}
