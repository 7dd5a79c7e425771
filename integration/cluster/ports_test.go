package cluster_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// otherTarget is the second port of the pods of TestPortsLeadToTheTargetPortsOfSlices.
const otherTarget = 8081

// TestPortsLeadToTheTargetPortsOfSlices has Services with several ports. Its parts are
// independent of each other.
func TestPortsLeadToTheTargetPortsOfSlices(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 2)
	for _, p := range []*lab.Pod{c.Lab.Pods[0], c.Lab.RemotePods[0]} {
		clustertest.Must(t, p.ServeAll(otherTarget))
	}
	for name, part := range map[string]func(*twoNodes, *testing.T){
		"one by one":                          (*twoNodes).portsComeAndGo,
		"each protocol by itself":             (*twoNodes).protocolsGo,
		"by names that differ between Pods":   (*twoNodes).portsByName,
		"to containers that start the others": (*twoNodes).portsOfSidecars,
		"in several EndpointSlices":           (*twoNodes).portsInSlices,
		"in several subsets of Endpoints":     (*twoNodes).portsInSubsets,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(c, t)
		})
	}
}

// onPort returns the same target at another port.
func onPort(t traffic.Target, port uint16) traffic.Target {
	t.Port = port
	return t
}

// portsComeAndGo has ports served by one of two targets of the same Pod.
func (c *twoNodes) portsComeAndGo(t *testing.T) {
	s := c.create(t, "ports", nodePorts)
	c.scaled(t, "ports", c.At(c.Lab.Pods[0]))
	to := traffic.Service(s, port)
	checkAnswered(t, c.clients, to, "pod-1")
	first := s.Spec.Ports
	second, third := numbered(objects.Ports(port+1, otherTarget)), numbered(objects.Ports(port+2, targetPort))
	for _, step := range []struct {
		ports    []corev1.ServicePort
		answered []uint16
		refused  []uint16
	}{
		{append(append([]corev1.ServicePort(nil), first...), second...), []uint16{port, port + 1}, nil},
		{second, []uint16{port + 1}, []uint16{port}},
		{append(append([]corev1.ServicePort(nil), second...), third...), []uint16{port + 1, port + 2}, []uint16{port}},
	} {
		s = c.change(t, "ports", func(s *corev1.Service) { s.Spec.Ports = step.ports })
		c.awaitPorts(t, "ports", len(step.ports))
		c.awaitRules(t)
		for _, n := range step.answered {
			checkAnswered(t, c.clients, onPort(to, n), "pod-1")
		}
		for _, n := range step.refused {
			checkOutcome(t, []*traffic.Client{c.near, c.far}, onPort(to, n), lab.Refused)
		}
		checkAnswered(t, c.clients, c.both(s)[1], "pod-1")
	}
	gone := traffic.NodePort(&corev1.Service{Spec: corev1.ServiceSpec{Ports: first}}, c.Lab.Node)
	checkNodePortRefuses(t, c.clients, gone)
}

// awaitPorts waits until each slice of the controller has so many ports.
func (c *twoNodes) awaitPorts(t *testing.T, service string, ports int) {
	t.Helper()
	c.awaitSlices(t, service, func(all []discoveryv1.EndpointSlice) error {
		for i := range all {
			if have := len(all[i].Ports); have != ports {
				return fmt.Errorf("slice %s has %d ports, want %d", all[i].Name, have, ports)
			}
		}
		return nil
	})
}

// awaitPort waits until each slice has a port of that name.
func (c *twoNodes) awaitPort(t *testing.T, service, name string) {
	t.Helper()
	c.awaitSlices(t, service, func(all []discoveryv1.EndpointSlice) error {
		for i := range all {
			if !slices.ContainsFunc(all[i].Ports, func(p discoveryv1.EndpointPort) bool { return *p.Name == name }) {
				return fmt.Errorf("slice %s has no port %s", all[i].Name, name)
			}
		}
		return nil
	})
}

// awaitSlices waits until check accepts all slices of a Service.
func (c *twoNodes) awaitSlices(t *testing.T, service string, suit func([]discoveryv1.EndpointSlice) error) {
	t.Helper()
	ctx := clustertest.Context(t)
	clustertest.Must(t, eventually.Try(ctx, func() error {
		list, err := c.Client.DiscoveryV1().EndpointSlices(c.ns.Name).List(ctx,
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
		if err != nil {
			return err
		}
		return suit(list.Items)
	}))
}

// protocolsGo has a port served over one protocol less each time, at the ClusterIP
// and at a load balancer's address.
func (c *twoNodes) protocolsGo(t *testing.T) {
	s := c.create(t, "protocols", balanced, withoutNodePorts)
	targets := []traffic.Target{traffic.Service(s, port), c.balancer(t, "protocols")}
	c.scaled(t, "protocols", c.At(c.Lab.Pods[0]), c.At(c.Lab.RemotePods[0]))
	inside := []*traffic.Client{c.near, c.far}
	for n := range model.Protocols {
		c.change(t, "protocols", func(s *corev1.Service) { s.Spec.Ports = objects.Ports(port, targetPort)[n:] })
		c.awaitPorts(t, "protocols", len(model.Protocols)-n)
		c.awaitRules(t)
		for _, to := range targets {
			checkAnsweredOver(t, traffic.Over(model.Protocols[n:]...), c.clients, to, "pod-1", "remote-1")
		}
		if gone := traffic.Over(model.Protocols[:n]...); len(gone) > 0 {
			checkOutcomeOver(t, gone, inside, targets[0], lab.Refused)
		}
	}
	if s.Spec.Ports[0].NodePort != 0 {
		t.Errorf("it has a node port, %d", s.Spec.Ports[0].NodePort)
	}
}

// named gives a container ports of a name and number over all protocols.
func named(number int32) []corev1.ContainerPort {
	var all []corev1.ContainerPort
	for _, p := range objects.Ports(port, 0) {
		all = append(all, corev1.ContainerPort{Name: "main-" + p.Name[:3], Protocol: p.Protocol, ContainerPort: number})
	}
	return all
}

// byName has a Service's ports lead to those of [named].
func byName(s *corev1.Service) {
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].TargetPort = intstr.FromString("main-" + s.Spec.Ports[i].Name[:3])
	}
}

func (c *twoNodes) portsByName(t *testing.T) {
	to, ctx := c.service(t, "by-name", byName), clustertest.Context(t)
	for i, pod := range []*lab.Pod{c.Lab.Pods[1], c.Lab.RemotePods[0]} { // pod-2 serves one of the two
		_, err := c.ns.CreatePod(ctx, fmt.Sprintf("by-name-%d", i), "by-name", c.At(pod),
			func(s *corev1.PodSpec) { s.Containers[0].Ports = named(int32(targetPort + i)) })
		clustertest.Must(t, err)
	}
	clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "by-name", 2))
	c.awaitRules(t)
	checkAnswered(t, c.clients, to, "pod-2", "remote-1")
}

// portsOfSidecars has the port be one of an init container that goes on.
func (c *twoNodes) portsOfSidecars(t *testing.T) {
	to, ctx := c.service(t, "sidecar", byName), clustertest.Context(t)
	always := corev1.ContainerRestartPolicyAlways
	_, err := c.ns.CreatePod(ctx, "sidecar", "sidecar", c.At(c.Lab.RemotePods[0]), func(s *corev1.PodSpec) {
		s.InitContainers = []corev1.Container{{
			Name: "stays", Image: "none", RestartPolicy: &always, Ports: named(otherTarget),
		}}
	})
	clustertest.Must(t, err)
	clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "sidecar", 1))
	c.awaitRules(t)
	checkAnswered(t, c.clients, to, "remote-1")
}

// portsInSlices has two ports in slices of their own, with other endpoints each;
// those of the first are in two slices.
func (c *twoNodes) portsInSlices(t *testing.T) {
	first, second := objects.Ports(port, targetPort), objects.Ports(port+1, otherTarget)
	to := c.service(t, "many-slices", func(s *corev1.Service) {
		s.Spec.Selector, s.Spec.Ports = nil, append(append([]corev1.ServicePort(nil), first...), second...)
	})
	for i, s := range []struct {
		pod   *lab.Pod
		ports []corev1.ServicePort
	}{{c.Lab.Pods[0], first}, {c.Lab.RemotePods[1], first}, {c.Lab.RemotePods[0], second}} {
		for _, f := range model.Families {
			slice := objects.Slice(fmt.Sprintf("many-%d-%d", i, f), "many-slices", s.ports, "", s.pod.Addr(f))
			_, err := c.ns.CreateSlice(clustertest.Context(t), slice)
			clustertest.Must(t, err)
		}
	}
	c.awaitRules(t)
	checkAnswered(t, c.clients, to, "pod-1", "remote-2")
	checkAnswered(t, c.clients, onPort(to, port+1), "remote-1")
}

// portsInSubsets has Endpoints whose subsets have the same address with a port
// each. A controller makes slices of them.
func (c *twoNodes) portsInSubsets(t *testing.T) {
	first, second := objects.Ports(port, targetPort), objects.Ports(port+1, otherTarget)
	to := c.service(t, "subsets", func(s *corev1.Service) {
		s.Spec.Selector, s.Spec.Ports = nil, append(append([]corev1.ServicePort(nil), first...), second...)
	})
	ctx, pod := clustertest.Context(t), c.Lab.Pods[0]
	all := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "subsets"}} //nolint:staticcheck // deprecated, and mirrored to this day
	for _, ports := range [][]corev1.ServicePort{first, second} {
		all.Subsets = append(all.Subsets, subset(ports, pod.Addr(model.IPv4)))
	}
	_, err := c.Client.CoreV1().Endpoints(c.ns.Name).Create(ctx, all, metav1.CreateOptions{})
	clustertest.Must(t, err)
	c.awaitSlices(t, "subsets", func(all []discoveryv1.EndpointSlice) error {
		ports := 0
		for i := range all {
			ports += len(all[i].Ports)
		}
		if want := len(first) + len(second); ports != want {
			return fmt.Errorf("%d ports mirrored, want %d", ports, want)
		}
		return nil
	})
	c.awaitRules(t)
	for _, n := range []uint16{port, port + 1} {
		checkAnsweredOver(t, traffic.Of(model.IPv4), c.clients, onPort(to, n), "pod-1")
	}
}

// subset has every port at every address.
func subset(ports []corev1.ServicePort, addrs ...netip.Addr) (s corev1.EndpointSubset) { //nolint:staticcheck // as above
	for _, a := range addrs {
		s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: a.String()})
	}
	for _, p := range ports {
		s.Ports = append(s.Ports, corev1.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: p.TargetPort.IntVal})
	}
	return s
}
