package main

import (
	"errors"
	"net/netip"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// connect measures what a ClusterIP adds to a connection between two pods of
// the node, at few and at many Services.
func (b *bench) connect() (err error) {
	s := b.Section("Connections, tcp over ip, pod to pod", "", "p50", "p99", "per s", "direct p50", "p99", "per s", "p50/direct")
	s.Note("through a ClusterIP against straight to the pod, in turns; each: connect, ask, be answered, close")
	site, err := newSite(model.IPv4, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.close()) }()
	pod := site.server[0].AddrPort(site.family, podPort)
	bare := &speed{}
	if err := bare.measure(site.client.Host, pod); err != nil {
		return err
	}
	s.Add(append([]any{"no rules", "", "", ""}, bare.cells()...)...)
	for _, z := range []size{{10, 10}, standard} {
		if err := site.program(z); err != nil {
			return err
		}
		through, direct, err := b.compare(site, pod)
		if err != nil {
			return err
		}
		cells := append([]any{z.String()}, through.cells()...)
		cells = append(cells, direct.cells()...)
		s.Add(append(cells, report.Ratio(through.latency.Median(), direct.latency.Median()))...)
	}
	return nil
}

// compare asks through the ClusterIP and directly in turns.
func (b *bench) compare(s *site, pod netip.AddrPort) (through, direct *speed, err error) {
	through, direct = &speed{}, &speed{}
	for range b.turnsOfBursts() {
		if err := through.measure(s.client.Host, s.clusterIP()); err != nil {
			return nil, nil, err
		}
		if err := direct.measure(s.client.Host, pod); err != nil {
			return nil, nil, err
		}
	}
	return through, direct, nil
}

func (b *bench) turnsOfBursts() int {
	if b.quick {
		return 4
	}
	return 10
}

// questionsPerBurst is small, so that a disturbance meets both ways alike.
const questionsPerBurst = 1_000

// speed sums up bursts.
type speed struct {
	latency report.Times
	took    time.Duration
}

// measure adds a burst, one question after the other.
func (s *speed) measure(from *lab.Host, to netip.AddrPort) error {
	t, err := burst(from, to, questionsPerBurst, 1)
	s.latency, s.took = append(s.latency, t.Latencies...), s.took+t.Took
	return err
}

func (s *speed) cells() []any {
	rate := float64(len(s.latency)) / s.took.Seconds()
	return []any{s.latency.Median(), s.latency.At(0.99), int(rate)}
}
