package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// maxConnectionRatio is how many times as long a connection may take through a ClusterIP
// as straight to the pod, and if it is counted as if it is not.
const maxConnectionRatio = 1.05

// labNode is a node of a lab, a pod that serves and one that is the client.
type labNode struct {
	lab            *lab.Lab
	server, client *lab.Pod
	kernel         *kernel.Kernel
}

// way is a way for connections to the pod: a number of Services, and how they are programmed.
type way struct {
	name    string
	want    nft.Change
	config  nft.Config
	to      netip.AddrPort
	latency report.Times
}

// connect measures connections between two pods of a node: straight to the pod, through a
// ClusterIP, and with connections counted, among few and among many Services.
func (b *bench) connect() (err error) {
	node, err := newLabNode()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.close()) }()
	for _, z := range []size{{10, 10}, standard} {
		through := node.way(z)
		direct, counted := *through, *through
		direct.name, direct.to = "straight to the pod", node.server.AddrPort(model.IPv4, podPort)
		counted.name, counted.config.CountConnections = through.name+", counted", true
		ways := []*way{&direct, through, &counted}
		if err := b.alternate(node, ways); err != nil {
			return err
		}
		b.MarkRatio("a connection through a ClusterIP, "+through.name+", p50",
			through.latency.Median(), direct.name, direct.latency.Median(), maxConnectionRatio)
		b.MarkRatio("a connection that is counted, "+through.name+", p50",
			counted.latency.Median(), "not counted", through.latency.Median(), maxConnectionRatio)
	}
	return nil
}

// newLabNode builds a lab without rules. It must be closed.
func newLabNode() (*labNode, error) {
	l, err := lab.New(lab.Options{Pods: 2})
	if err != nil {
		return nil, err
	}
	n := &labNode{lab: l, server: l.Pods[0], client: l.Pods[1]}
	err = l.Node.Do(func() (err error) { n.kernel, err = kernel.Open(kernel.Config{}); return err })
	if err == nil {
		_, err = n.server.Serve(model.TCP, podPort)
	}
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *labNode) close() error {
	var err error
	if n.kernel != nil {
		err = n.kernel.Close()
	}
	return errors.Join(err, n.lab.Close())
}

// way returns a cluster of that size with one more Service, which the pod serves.
func (n *labNode) way(z size) *way {
	const served = 60_000 // beyond the numbers of any cluster
	c := newCluster(z, model.IPv4)
	c.apply(c.setService(served, []model.Endpoint{{Addr: n.server.Addr(model.IPv4), Ready: true, Serving: true, Node: thisNode}}))
	to := netip.AddrPortFrom(c.service(served).ClusterIPs[0], servicePort)
	return &way{name: "among " + z.String(), want: c.all(), config: config, to: to}
}

// alternate measures connections in each way, in turns.
func (b *bench) alternate(n *labNode, ways []*way) error {
	turns := 20
	if b.quick {
		turns = 8
	}
	for range turns {
		for _, w := range ways {
			have, err := n.kernel.Read()
			if err != nil {
				return err
			}
			_, batch := nft.Adopt(w.config, have, w.want)
			if _, err := n.kernel.Apply(batch); err != nil {
				return err
			}
			if err := w.measure(n.client.Host); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure adds a burst of connections, one after the other: connect, request, response, close.
// It is small, so that a disturbance affects all ways alike.
func (w *way) measure(from *lab.Host) error {
	const questions = 1_000
	tally, err := from.Burst(lab.Burst{Protocol: model.TCP, To: w.to, Count: questions, Workers: 1, Timeout: 2 * time.Second})
	if err == nil && len(tally.Latencies) != questions {
		err = fmt.Errorf("%d questions to %s: %s", questions, w.to, tally)
	}
	w.latency = append(w.latency, tally.Latencies...)
	return err
}
