package main

import (
	"errors"
	"net/netip"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// connect measures what a ClusterIP adds to a connection between two pods of the node,
// among few and among many Services.
func (b *bench) connect() (err error) {
	s := b.Section("Connections, tcp over ip, pod to pod", "", "p50", "p99", "per s", "direct p50", "p99", "per s", "p50/direct")
	s.Note("through a ClusterIP and directly to the pod, in turns; each: connect, request, response, close")
	node, err := newLabNode(model.IPv4, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.close()) }()
	pod := node.server[0].AddrPort(node.family, podPort)
	bare := &burstTimes{}
	if err := bare.measure(node.client.Host, pod); err != nil {
		return err
	}
	s.Add(append([]any{"no rules", "", "", ""}, bare.cells()...)...)
	for _, z := range []size{{10, 10}, standard} {
		if err := node.program(z); err != nil {
			return err
		}
		through, direct, err := b.compare(node, pod)
		if err != nil {
			return err
		}
		cells := append([]any{z.String()}, through.cells()...)
		cells = append(cells, direct.cells()...)
		s.Add(append(cells, report.Ratio(through.latency.Median(), direct.latency.Median()))...)
	}
	return nil
}

// compare measures connections through the ClusterIP and to the pod, in turns.
func (b *bench) compare(s *labNode, pod netip.AddrPort) (through, direct *burstTimes, err error) {
	through, direct = &burstTimes{}, &burstTimes{}
	for range b.burstRepetitions() {
		if err := through.measure(s.client.Host, s.clusterIP()); err != nil {
			return nil, nil, err
		}
		if err := direct.measure(s.client.Host, pod); err != nil {
			return nil, nil, err
		}
	}
	return through, direct, nil
}

// A way is a configuration of the rules, and connections through the ClusterIP with it.
type way struct {
	name   string
	config nft.Config
	burstTimes
}

// alternate measures connections from a host directly to a pod, and with each of the
// configurations, in turns. It adds a row for each, compared with the first configuration.
func (b *bench) alternate(s *report.Section, node *labNode, from *lab.Host, ways ...*way) error {
	c := newCluster(size{10, 10}, node.family)
	c.apply(c.setService(servedService, node.pods()))
	want := c.all()
	node.proxy = &proxy{cluster: c}
	direct := &way{name: "straight to the pod"}
	for range 2 * b.burstRepetitions() {
		if err := direct.measure(from, node.server[0].AddrPort(node.family, podPort)); err != nil {
			return err
		}
		for _, w := range ways {
			have, err := node.kernel.Read()
			if err != nil {
				return err
			}
			_, batch := nft.Adopt(w.config, have, want)
			if _, err := node.kernel.Apply(batch); err != nil {
				return err
			}
			if err := w.measure(from, node.clusterIP()); err != nil {
				return err
			}
		}
	}
	for _, w := range append([]*way{direct}, ways...) {
		s.Add(append(append([]any{w.name}, w.cells()...), report.Ratio(w.latency.Median(), ways[0].latency.Median()))...)
	}
	return nil
}

func (b *bench) burstRepetitions() int {
	if b.quick {
		return 4
	}
	return 10
}

// questionsPerBurst is small, so that a disturbance affects both alike.
const questionsPerBurst = 1_000

// burstTimes sums up bursts.
type burstTimes struct {
	latency report.Times
	took    time.Duration
}

// measure adds a burst of connections, one after the other.
func (s *burstTimes) measure(from *lab.Host, to netip.AddrPort) error {
	t, err := burst(from, to, questionsPerBurst, 1)
	s.latency, s.took = append(s.latency, t.Latencies...), s.took+t.Took
	return err
}

func (s *burstTimes) cells() []any {
	rate := float64(len(s.latency)) / s.took.Seconds()
	return []any{s.latency.Median(), s.latency.At(0.99), int(rate)}
}
