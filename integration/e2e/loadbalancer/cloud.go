package main

import (
	"context"
	"net/netip"
	stdsync "sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

type balancer struct {
	address netip.Addr
	service *corev1.Service
	nodes   []*corev1.Node
	hops    []string // the nodes that its address is routed to
}

// A cloud has the load balancers. The methods of the interface that the service controller does
// not call do not exist.
type cloud struct {
	cloudprovider.Interface
	source string

	mu        stdsync.Mutex // of what follows
	next      netip.Addr
	balancers map[types.UID]*balancer
}

func newCloud(first netip.Addr, source string) *cloud {
	return &cloud{source: source, next: first, balancers: map[types.UID]*balancer{}}
}

func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }

func (c *cloud) ProviderName() string { return "e2e" }

func (c *cloud) HasClusterID() bool { return true }

func (c *cloud) GetLoadBalancerName(_ context.Context, _ string, s *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(s)
}

func (c *cloud) GetLoadBalancer(
	_ context.Context, _ string, s *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.balancers[s.UID]
	if b == nil {
		return nil, false, nil
	}
	return b.status(), true, nil
}

func (c *cloud) EnsureLoadBalancer(
	_ context.Context, _ string, s *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.balancers[s.UID]
	if b == nil {
		b = &balancer{address: c.next}
		c.next = c.next.Next()
		c.balancers[s.UID] = b
	}
	b.service, b.nodes = s, nodes
	return b.status(), nil
}

func (c *cloud) UpdateLoadBalancer(
	ctx context.Context, name string, s *corev1.Service, nodes []*corev1.Node,
) error {
	_, err := c.EnsureLoadBalancer(ctx, name, s, nodes)
	return err
}

func (c *cloud) EnsureLoadBalancerDeleted(_ context.Context, _ string, s *corev1.Service) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.balancers[s.UID]
	delete(c.balancers, s.UID)
	if b == nil {
		return nil
	}
	return b.setRoute(nil, c.source)
}

func (c *cloud) snapshot() map[types.UID]balancer {
	c.mu.Lock()
	defer c.mu.Unlock()
	copies := map[types.UID]balancer{}
	for id, b := range c.balancers {
		copies[id] = *b
	}
	return copies
}

func (b *balancer) status() *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: b.address.String()}}}
}
