package cluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestNodePortsFollowTheirService asks at both nodes, from pods, from the nodes and from
// outside. The Services of its parts are independent of each other.
func TestNodePortsFollowTheirService(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 2)
	for name, part := range map[string]func(*twoNodes, *testing.T){
		"answer on every node":          (*twoNodes).nodePortsAnswer,
		"lead into a node's network":    (*twoNodes).nodePortsOfHostNetwork,
		"change their number":           (*twoNodes).nodePortsChange,
		"are released":                  (*twoNodes).nodePortsAreReleased,
		"come and go with its type":     (*twoNodes).typesChange,
		"take in another protocol":      (*twoNodes).protocolsCome,
		"of another Service, same pods": (*twoNodes).servicesShareEndpoints,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(c, t)
		})
	}
}

func (c *twoNodes) nodePortsAnswer(t *testing.T) {
	s := c.create(t, "functioning", nodePorts)
	c.scaled(t, "functioning", c.At(c.Lab.Pods[0]), c.At(c.Lab.RemotePods[0]))
	checkAnswered(t, c.clients, traffic.Service(s, port), "pod-1", "remote-1")
	for _, to := range c.both(s) {
		checkAnswered(t, c.clients, to, "pod-1", "remote-1")
	}
}

// nodePortsOfHostNetwork asks the nodes, too, which are their own clients then.
func (c *twoNodes) nodePortsOfHostNetwork(t *testing.T) {
	const served = 8090
	for _, n := range []*lab.Node{c.Lab.Node, c.Lab.Remote} {
		clustertest.Must(t, n.ServeAll(served))
	}
	s := c.create(t, "host-network", nodePorts, func(s *corev1.Service) {
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].TargetPort = intstr.FromInt32(served)
		}
	})
	c.scaled(t, "host-network", c.on(c.Lab.Node), c.on(c.Lab.Remote))
	checkAnswered(t, c.clients, traffic.Service(s, port), "node-1", "node-2")
	for _, to := range c.both(s) {
		checkAnswered(t, c.clients, to, "node-1", "node-2")
	}
}

func (c *twoNodes) nodePortsChange(t *testing.T) {
	before := c.create(t, "moves", nodePorts)
	c.scaled(t, "moves", c.At(c.Lab.Pods[0]))
	after := c.change(t, "moves", func(s *corev1.Service) { s.Spec.Ports = numbered(s.Spec.Ports) })
	c.awaitRules(t)
	for i, to := range c.both(after) {
		checkAnswered(t, c.clients, to, "pod-1")
		checkNodePortRefuses(t, c.clients, c.both(before)[i])
	}
}

func (c *twoNodes) nodePortsAreReleased(t *testing.T) {
	s := c.create(t, "released", nodePorts)
	c.scaled(t, "released", c.At(c.Lab.Pods[0]))
	checkAnswered(t, c.clients, c.both(s)[1], "pod-1")
	clustertest.Must(t, c.ns.DeleteService(clustertest.Context(t), "released"))
	c.awaitRules(t)
	for _, to := range c.both(s) {
		checkNodePortRefuses(t, c.clients, to)
	}
	again := c.create(t, "takes-over", nodePorts, func(other *corev1.Service) {
		for i := range other.Spec.Ports {
			other.Spec.Ports[i].NodePort = s.Spec.Ports[i].NodePort
		}
	})
	c.scaled(t, "takes-over", c.At(c.Lab.RemotePods[0]))
	for _, to := range c.both(again) {
		checkAnswered(t, c.clients, to, "remote-1")
	}
}

// typesChange makes every change of types in Kubernetes' e2e tests, and some more.
func (c *twoNodes) typesChange(t *testing.T) {
	external := func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
		s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = "", nil, nil, nil
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].NodePort = 0
		}
	}
	of := func(kind corev1.ServiceType) func(*corev1.Service) {
		return func(s *corev1.Service) {
			like := objects.Service("", objects.Ports(port, targetPort)...).Spec
			s.Spec.Type, s.Spec.ExternalName = kind, ""
			s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = like.IPFamilies, like.IPFamilyPolicy
			if s.Spec.Ports = like.Ports; kind == corev1.ServiceTypeNodePort {
				s.Spec.Ports = numbered(s.Spec.Ports)
			}
		}
	}
	ctx := clustertest.Context(t)
	c.create(t, "changes", external)
	_, err := c.ns.CreatePod(ctx, "changes", "changes", c.At(c.Lab.Pods[0]))
	clustertest.Must(t, err)
	var last *corev1.Service
	for _, kind := range []corev1.ServiceType{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeNodePort, corev1.ServiceTypeExternalName,
		corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
	} {
		if kind == corev1.ServiceTypeExternalName {
			c.change(t, "changes", external)
			c.awaitRules(t)
			checkOutcome(t, []*traffic.Client{c.near, c.far}, traffic.Service(last, port), lab.TimedOut)
		} else {
			before := last
			last = c.change(t, "changes", of(kind))
			clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "changes", 1))
			c.awaitRules(t)
			checkAnswered(t, c.clients, traffic.Service(last, port), "pod-1")
			if kind == corev1.ServiceTypeClusterIP && before != nil {
				checkNodePortRefuses(t, c.clients, c.both(before)[0])
			}
		}
		if kind == corev1.ServiceTypeNodePort {
			for _, to := range c.both(last) {
				checkAnswered(t, c.clients, to, "pod-1")
			}
		}
	}
}

// protocolsCome changes a ClusterIP Service with TCP to a NodePort Service, and adds UDP and
// SCTP on the same numbers.
func (c *twoNodes) protocolsCome(t *testing.T) {
	all := objects.Ports(port, targetPort)
	s := c.create(t, "twins", func(s *corev1.Service) { s.Spec.Ports = all[:1] })
	c.scaled(t, "twins", c.At(c.Lab.Pods[0]))
	to := traffic.Service(s, port)
	checkAnsweredOver(t, traffic.Over(model.TCP), c.clients, to, "pod-1")
	checkOutcomeOver(t, traffic.Over(model.UDP, model.SCTP), []*traffic.Client{c.near, c.far}, to, lab.Refused)
	for n := 1; n <= len(all); n++ {
		s = c.change(t, "twins", nodePorts, func(s *corev1.Service) {
			for i := len(s.Spec.Ports); i < n; i++ {
				more := all[i]
				more.NodePort = s.Spec.Ports[0].NodePort
				s.Spec.Ports = append(s.Spec.Ports, more)
			}
		})
		c.awaitRules(t)
		for _, to := range []traffic.Target{to, c.both(s)[0], c.both(s)[1]} {
			checkAnsweredOver(t, traffic.Over(model.Protocols[:n]...), c.clients, to, "pod-1")
			if without := traffic.Over(model.Protocols[n:]...); len(without) > 0 {
				checkOutcomeOver(t, without, []*traffic.Client{c.near, c.far}, to, lab.Refused, lab.Unreachable)
			}
		}
	}
}

func (c *twoNodes) servicesShareEndpoints(t *testing.T) {
	places := []objects.Place{c.At(c.Lab.Pods[1]), c.At(c.Lab.RemotePods[1])}
	one := c.create(t, "one", nodePorts)
	other := c.create(t, "other", nodePorts, func(s *corev1.Service) { s.Spec.Selector = one.Spec.Selector })
	c.scaled(t, "one", places...)
	clustertest.Must(t, c.ns.AwaitEndpoints(clustertest.Context(t), "other", len(places)))
	c.awaitRules(t)
	for _, s := range []*corev1.Service{one, other} {
		checkAnswered(t, c.clients, traffic.Service(s, port), "pod-2", "remote-2")
		checkAnswered(t, c.clients, c.both(s)[0], "pod-2", "remote-2")
	}
	clustertest.Must(t, c.ns.DeleteService(clustertest.Context(t), "one"))
	c.awaitRules(t)
	checkAnswered(t, c.clients, c.both(other)[0], "pod-2", "remote-2")
	checkNodePortRefuses(t, c.clients, c.both(one)[0])
}
