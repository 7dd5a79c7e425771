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

// site is a node of the lab with a proxy, the pods that serve, and a pod that
// asks.
type site struct {
	lab    *lab.Lab
	proxy  *proxy
	server []*lab.Pod
	client *lab.Pod
	kernel *kernel.Kernel
	family model.Family
}

// newSite builds a lab with that many servers. It has no rules yet, and must be
// closed.
func newSite(f model.Family, servers int) (*site, error) {
	l, err := lab.New(lab.Options{Pods: servers + 1})
	if err != nil {
		return nil, err
	}
	s := &site{lab: l, server: l.Pods[:servers], client: l.Pods[servers], family: f}
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

func (s *site) close() error {
	var err error
	if s.kernel != nil {
		err = s.kernel.Close()
	}
	return errors.Join(err, s.lab.Close())
}

// served is the number of the Service that the site's pods serve, beyond those
// of any cluster.
const served = 60_000

// clusterIP is where the client finds it.
func (s *site) clusterIP() netip.AddrPort {
	return netip.AddrPortFrom(s.proxy.service(served).ClusterIPs[0], servicePort)
}

// program makes a cluster of that size and the Service that the pods serve.
func (s *site) program(z size) (err error) {
	c := newCluster(z, s.family)
	c.apply(c.set(served, s.pods()))
	s.proxy, err = newProxy(c, s.kernel)
	return err
}

// pods are those that serve, as endpoints.
func (s *site) pods() []model.Endpoint {
	pods := make([]model.Endpoint, len(s.server))
	for i, pod := range s.server {
		pods[i] = model.Endpoint{Addr: pod.Addr(s.family), Ready: true, Serving: true, Node: thisNode}
	}
	return pods
}

// burst asks that many questions, which all must be answered.
func (s *site) burst(to netip.AddrPort, questions, workers int) (lab.Tally, error) {
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
