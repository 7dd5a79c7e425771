package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/kernel"
)

// labNode is a node of a lab with a proxy, pods that serve, and a pod that is the client.
type labNode struct {
	lab    *lab.Lab
	proxy  *proxy
	server []*lab.Pod
	client *lab.Pod
	kernel *kernel.Kernel
	family model.Family
}

// newLabNode builds a lab with that many servers. It has no rules yet, and must be
// closed.
func newLabNode(f model.Family, servers int) (*labNode, error) {
	return newLabNodeOf(lab.Options{Pods: servers + 1}, f, servers)
}

func newLabNodeOf(o lab.Options, f model.Family, servers int) (*labNode, error) {
	l, err := lab.New(o)
	if err != nil {
		return nil, err
	}
	s := &labNode{lab: l, server: l.Pods[:servers], client: l.Pods[servers], family: f}
	err = l.Node.Do(func() (err error) { s.kernel, err = kernel.Open(kernel.Config{}); return err })
	for _, pod := range s.server {
		if err == nil {
			_, err = pod.Serve(model.TCP, podPort)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *labNode) close() error {
	var err error
	if s.kernel != nil {
		err = s.kernel.Close()
	}
	return errors.Join(err, s.lab.Close())
}

// servedService is the number of the Service that the node's pods serve, beyond those
// of any cluster.
const servedService = 60_000

// clusterIP returns the address of that Service.
func (s *labNode) clusterIP() netip.AddrPort {
	return netip.AddrPortFrom(s.proxy.service(servedService).ClusterIPs[0], servicePort)
}

// program programs a cluster of that size, with the Service that the pods serve.
func (s *labNode) program(z size) (err error) {
	c := newCluster(z, s.family)
	c.apply(c.setService(servedService, s.pods()))
	s.proxy, err = newProxy(c, s.kernel)
	return err
}

// pods returns the serving pods as endpoints.
func (s *labNode) pods() []model.Endpoint {
	pods := make([]model.Endpoint, len(s.server))
	for i, pod := range s.server {
		pods[i] = model.Endpoint{Addr: pod.Addr(s.family), Ready: true, Serving: true, Node: thisNode}
	}
	return pods
}

// burst sends so many requests. Each must get a response.
func (s *labNode) burst(to netip.AddrPort, questions, workers int) (lab.Tally, error) {
	return burst(s.client.Host, to, questions, workers)
}

func burst(from *lab.Host, to netip.AddrPort, questions, workers int) (lab.Tally, error) {
	t, err := from.Burst(lab.Burst{
		Protocol: model.TCP, To: to, Count: questions, Workers: workers, Timeout: 2 * time.Second,
	})
	if err == nil && len(t.Latencies) != questions {
		err = fmt.Errorf("%d questions to %s: %s", questions, to, t)
	}
	return t, err
}
