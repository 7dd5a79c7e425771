package main

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

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
