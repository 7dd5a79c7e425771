package cluster_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestServicesAreReachedFromOutside has clients ask at addresses that no host has. The
// Services of its parts are independent of each other.
func TestServicesAreReachedFromOutside(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 2)
	for name, part := range map[string]func(*twoNodes, *testing.T){
		"by external IPs":                         (*twoNodes).externalIP,
		"by a load balancer with and without":     (*twoNodes).balancerWithAndWithoutNodePorts,
		"by a load balancer that becomes another": (*twoNodes).balancerChanges,
		"from where source ranges let them":       (*twoNodes).sourceRanges,
		"by nodes with endpoints":                 (*twoNodes).localNodePorts,
		"with pods and nodes from everywhere":     (*twoNodes).localBalancer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(c, t)
		})
	}
}

func (c *twoNodes) externalIP(t *testing.T) {
	addrs := anywhere()
	c.create(t, "external-ip", externalIPs(addrs))
	c.scaled(t, "external-ip", c.At(c.Lab.Pods[0]), c.At(c.Lab.RemotePods[0]))
	to := traffic.Target{Name: "external IP", Addrs: addrs, Port: port}
	checkAnswered(t, c.clients, to, "pod-1", "remote-1")
	c.change(t, "external-ip", func(s *corev1.Service) { s.Spec.ExternalIPs = nil })
	c.awaitRules(t)
	checkOutcome(t, c.clients, to, lab.TimedOut)
}

func (c *twoNodes) balancerWithAndWithoutNodePorts(t *testing.T) {
	s := c.create(t, "without", balanced, withoutNodePorts)
	to := c.balancer(t, "without")
	c.scaled(t, "without", c.At(c.Lab.Pods[0]), c.At(c.Lab.RemotePods[0]))
	checkAnswered(t, c.clients, to, "pod-1", "remote-1")
	if n := s.Spec.Ports[0].NodePort; n != 0 {
		t.Fatalf("it has node port %d", n)
	}
	s = c.change(t, "without", func(s *corev1.Service) {
		s.Spec.AllocateLoadBalancerNodePorts = new(true)
		s.Spec.Ports = numbered(s.Spec.Ports)
	})
	c.awaitRules(t)
	for _, to := range append(c.bothOf(s), to) {
		checkAnswered(t, c.clients, to, "pod-1", "remote-1")
	}
}

// balancerChanges makes a ClusterIP Service a NodePort Service, one with a load
// balancer, one with another port and node port, and a ClusterIP Service again, as
// upstream's tests do for TCP and for UDP.
func (c *twoNodes) balancerChanges(t *testing.T) {
	s := c.create(t, "mutable")
	c.scaled(t, "mutable", c.At(c.Lab.Pods[0]))
	checkAnswered(t, c.clients, traffic.Service(s, port), "pod-1")
	s = c.change(t, "mutable", nodePorts, func(s *corev1.Service) { s.Spec.Ports = numbered(s.Spec.Ports) })
	before := s
	c.change(t, "mutable", balanced)
	to := c.balancer(t, "mutable")
	c.awaitRules(t)
	for _, to := range append(c.bothOf(s), to) {
		checkAnswered(t, c.clients, to, "pod-1")
	}
	s = c.change(t, "mutable", func(s *corev1.Service) {
		s.Spec.Ports = numbered(objects.Ports(port+1, targetPort))
	})
	c.awaitPort(t, "mutable", "tcp-81")
	c.awaitRules(t)
	for _, to := range append(c.bothOf(s), onPort(to, port+1)) {
		checkAnswered(t, c.clients, to, "pod-1")
	}
	checkOutcome(t, c.clients, to, lab.TimedOut)
	checkNodePortRefuses(t, c.clients, c.both(before)[0])
	last := c.change(t, "mutable", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerClass, s.Spec.Ports = corev1.ServiceTypeClusterIP, nil, objects.Ports(port+1, targetPort)
		s.Spec.AllocateLoadBalancerNodePorts, s.Spec.ExternalTrafficPolicy = nil, ""
	})
	clustertest.Must(t, c.ns.SetLoadBalancer(clustertest.Context(t), "mutable"))
	c.awaitRules(t)
	checkAnswered(t, c.clients, traffic.Service(last, port+1), "pod-1")
	checkOutcome(t, c.clients, onPort(to, port+1), lab.TimedOut)
	checkNodePortRefuses(t, c.clients, c.both(s)[1])
}

// sourceRanges permits one pod, then another, then no client, then all.
func (c *twoNodes) sourceRanges(t *testing.T) {
	s := c.create(t, "ranges", balanced)
	to := c.balancer(t, "ranges")
	c.scaled(t, "ranges", c.At(c.Lab.Pods[0]), c.At(c.Lab.RemotePods[0]))
	only := func(h *lab.Host) []string {
		return []string{h.Addr(model.IPv4).String() + "/32", h.Addr(model.IPv6).String() + "/128"}
	}
	clients := map[*traffic.Client]*lab.Host{
		c.near: c.Lab.Pods[2].Host, c.far: c.Lab.RemotePods[2].Host, c.clients[4]: c.Lab.Outside,
	}
	for allowed, host := range clients {
		c.change(t, "ranges", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = only(host) })
		c.awaitRules(t)
		for from := range clients {
			if from == allowed {
				checkAnswered(t, []*traffic.Client{from}, to, "pod-1", "remote-1")
			} else {
				checkOutcome(t, []*traffic.Client{from}, to, lab.TimedOut)
			}
		}
	}
	for _, step := range []struct {
		ranges []string
		open   bool
	}{
		{[]string{"255.0.0.0/32", "ffff::/128"}, false},
		{[]string{"0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1"}, true},
		{[]string{"255.0.0.0/32", "ffff::/128"}, false},
		{nil, true},
	} {
		c.change(t, "ranges", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = step.ranges })
		c.awaitRules(t)
		if step.open {
			checkAnswered(t, c.clients, to, "pod-1", "remote-1")
		} else {
			checkOutcome(t, c.clients, to, lab.TimedOut)
		}
		checkAnswered(t, c.clients, c.both(s)[1], "pod-1", "remote-1") // ranges do not apply to node ports
	}
}

// seenAs checks that servers see the client's own address.
func seenAs(h *lab.Host) func(lab.Answer, time.Time) error {
	return func(a lab.Answer, _ time.Time) error {
		if want := h.Addr(model.FamilyOf(a.Seen.Addr())); a.Seen.Addr() != want {
			return fmt.Errorf("%s saw %s, want %s", a.By, a.Seen, want)
		}
		return nil
	}
}

// localNodePorts has endpoints on the second node only.
func (c *twoNodes) localNodePorts(t *testing.T) {
	s := c.create(t, "local", nodePorts, externalLocal)
	c.scaled(t, "local", c.At(c.Lab.RemotePods[0]), c.At(c.Lab.RemotePods[1]))
	outside := c.clients[4]
	near, far := c.both(s)[0], c.both(s)[1]
	// A node's own pods and the node itself reach all endpoints, other clients only those
	// on the node.
	checkAnswered(t, []*traffic.Client{c.near, c.clients[2]}, near, "remote-1", "remote-2")
	checkOutcome(t, []*traffic.Client{c.clients[3], outside}, near, lab.TimedOut)
	checkAnswered(t, c.clients, far, "remote-1", "remote-2")
	far.Check = seenAs(c.Lab.Outside)
	checkAnswered(t, []*traffic.Client{outside}, far, "remote-1", "remote-2")
	far.Check = seenAs(c.Lab.Pods[2].Host)
	checkAnswered(t, []*traffic.Client{c.near}, far, "remote-1", "remote-2")
	checkAnswered(t, c.clients, traffic.Service(s, port), "remote-1", "remote-2")
}

// localBalancer has an endpoint on either node. Traffic from outside arrives at the first.
func (c *twoNodes) localBalancer(t *testing.T) {
	c.create(t, "local-balancer", balanced, externalLocal)
	to := c.balancer(t, "local-balancer")
	c.scaled(t, "local-balancer", c.At(c.Lab.Pods[0]), c.At(c.Lab.RemotePods[0]))
	outside := to
	outside.Check = seenAs(c.Lab.Outside)
	checkAnswered(t, c.clients[4:], outside, "pod-1")
	checkAnswered(t, c.clients[:4], to, "pod-1", "remote-1")
	to.Check = seenAs(c.Lab.Pods[2].Host)
	checkAnswered(t, []*traffic.Client{c.near}, to, "pod-1", "remote-1")
}
