package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	stdsync "sync"
	"time"

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

// client asks nodes for their health, with a new connection each time.
var client = http.Client{
	Timeout:   500 * time.Millisecond,
	Transport: &http.Transport{DisableKeepAlives: true},
}

// route routes each balancer's address to the nodes that are healthy now. It holds no lock while
// it asks them, and skips a balancer that vanished meanwhile.
func (c *cloud) route() error {
	for id, b := range c.snapshot() {
		hops := b.healthyNodes()
		c.mu.Lock()
		var err error
		if current := c.balancers[id]; current != nil {
			err = current.setRoute(hops, c.source)
		}
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// healthyNodes returns the addresses of the nodes that serve the balancer's Service. With session
// affinity there is one, because a connection takes a random next hop.
func (b *balancer) healthyNodes() []string {
	var addresses []string
	for _, node := range b.nodes {
		address := addressOf(node)
		if port := b.service.Spec.HealthCheckNodePort; port == 0 || isHealthy(address, port) {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	if b.service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP && len(addresses) > 1 {
		return addresses[:1]
	}
	return addresses
}

func addressOf(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		address, err := netip.ParseAddr(a.Address)
		if err == nil && address.Is4() && a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

func isHealthy(address string, port int32) bool {
	host := net.JoinHostPort(address, strconv.Itoa(int(port)))
	response, err := client.Get("http://" + host + "/healthz")
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// setRoute routes the balancer's address to the given nodes; without any there is no route.
func (b *balancer) setRoute(hops []string, source string) error {
	if slices.Equal(hops, b.hops) {
		return nil
	}
	args := []string{"route", "del", b.address.String()}
	if len(hops) > 0 {
		args = []string{"route", "replace", b.address.String(), "src", source}
	}
	for _, hop := range hops {
		args = append(args, "nexthop", "via", hop)
	}
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %q: %w: %s", args, err, out)
	}
	b.hops = hops
	return nil
}
