package cluster_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// twoTenants is a scene with a proxy, whose namespace is that of a bank, and with a
// tenant that attacks it. The bank's pod is pod-1, the attacker's pod-2.
type twoTenants struct {
	*oneNode
	// evil has the objects of the attacker.
	evil *scene
}

const (
	banksPod  = "pod-1"
	othersPod = "pod-2"
)

func newTwoTenants(t *testing.T) *twoTenants {
	t.Helper()
	return withTwoTenants(t, newOneNode(t, 2))
}

func withTwoTenants(t *testing.T, n *oneNode) *twoTenants {
	t.Helper()
	c := &twoTenants{oneNode: n}
	routeElsewhere(t, c.Lab, c.Lab.Node)
	evil := c.scene
	evil.ns = c.Namespace(t)
	c.evil = &evil
	c.proxy = c.Proxy(t, c.Lab.Node)
	return c
}

// serve gives the tenant's Service web endpoints at a pod.
func (c *scene) serve(t *testing.T, pod *lab.Pod) {
	t.Helper()
	for _, s := range slicesOf("web", []*lab.Pod{pod}) {
		_, err := c.ns.CreateSlice(clustertest.Context(t), s)
		clustertest.Must(t, err)
	}
}

// aged waits until objects created from now on are younger than the Service, because the
// older one wins. The API has times in seconds.
func aged(s *corev1.Service) { <-time.After(time.Until(s.CreationTimestamp.Add(time.Second))) }

// takenWithin is the limit until the next owner of an address is served at it.
const takenWithin = 10 * time.Second

// taken waits until the bank's pod, and no other, answers at all targets.
func (c *twoTenants) taken(t *testing.T, all ...traffic.Target) {
	t.Helper()
	for _, to := range all {
		ctx, cancel := context.WithTimeout(t.Context(), takenWithin)
		defer cancel()
		for _, from := range c.clients {
			if err := eventually.Try(ctx, func() error { return answeredWhere(from, to) }); err != nil {
				t.Errorf("%s: %v", to.Name, err)
				break
			}
		}
	}
}

// answeredWhere waits for the bank's pod to answer over all ways with an address.
func answeredWhere(from *traffic.Client, to traffic.Target) error {
	for _, w := range daemon.Transports() {
		if !to.Addrs[w.Family].IsValid() {
			continue
		}
		if err := from.AnsweredOver(w, to, banksPod); err != nil {
			return err
		}
	}
	return nil
}

// exposed returns a Service with node ports of one number and a load balancer, without
// selector.
func exposed(s *corev1.Service) {
	balanced(s)
	s.Spec.Selector = nil
	s.Spec.Ports = numbered(s.Spec.Ports)
}

// tooMany changes a Service so that the proxy rejects it because of its size.
func tooMany(s *corev1.Service) {
	s.Spec.ExternalIPs = texts(externalBase[model.IPv4], 5001)
	s.Spec.Ports = tcp("p", 2)
}

// TestAddressesOfAnInvalidServiceCanBeReused frees a node port, an address of a load
// balancer and a ClusterIP in the change that makes the Service too large to be served, and
// gives them to the bank.
func TestAddressesOfAnInvalidServiceCanBeReused(t *testing.T) {
	t.Parallel()
	c := newTwoTenants(t)
	ctx := clustertest.Context(t)
	was := c.evil.create(t, "web", exposed)
	c.evil.serve(t, c.Lab.Pods[1])
	balancer := c.evil.balancer(t, "web")
	nodePort, inside := traffic.NodePort(was, c.Lab.Node), traffic.Service(was, port)
	for _, to := range []traffic.Target{balancer, nodePort, inside} {
		for _, from := range c.clients {
			clustertest.Must(t, from.AwaitAnswers(ctx, to, othersPod))
		}
	}

	c.evil.change(t, "web", tooMany, ofIPv4, func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerClass, s.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeClusterIP, nil, nil
		s.Spec.ExternalTrafficPolicy = ""
		s.Spec.ClusterIPs = s.Spec.ClusterIPs[:1]
	})
	aged(was)
	c.create(t, "web", balanced, func(s *corev1.Service) {
		s.Spec.Selector = nil
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].NodePort = int32(nodePort.Port)
		}
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		s.Spec.ClusterIP = inside.Addrs[model.IPv6].String()
	})
	c.serve(t, c.Lab.Pods[0])
	clustertest.Must(t, c.ns.SetLoadBalancer(ctx, "web", ingressOf(balancer)...))
	inside.Addrs[model.IPv4] = netip.Addr{} // which the attacker still has
	nodePort.Name, balancer.Name, inside.Name = "the node port", "the address of the load balancer", "the ClusterIP"
	c.taken(t, nodePort, balancer, inside)
}

// ingressOf returns the addresses of a load balancer.
func ingressOf(to traffic.Target) (all []corev1.LoadBalancerIngress) {
	for _, a := range to.Addrs {
		all = append(all, corev1.LoadBalancerIngress{IP: a.String()})
	}
	return all
}

// TestInvalidSliceServesNoOldAddress moves a Service away from a pod, whose address may
// belong to another one by now, in the change that makes its slices invalid.
func TestInvalidSliceServesNoOldAddress(t *testing.T) {
	t.Parallel()
	c := newTwoTenants(t)
	for name, refused := range map[string]func(*discoveryv1.EndpointSlice){
		"too-large": func(s *discoveryv1.EndpointSlice) {
			large := sliceOf("", "", model.IPv4, tcp("p", 101), 0, 0)
			s.Ports = append(large.Ports, s.Ports...)
		},
		"without-numbers": func(s *discoveryv1.EndpointSlice) {
			for i := range s.Ports {
				s.Ports[i].Port = nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.movesAway(t, name, refused)
		})
	}
}

// movesAway moves a Service from the attacker's pod to slices of a thousand others that
// are rejected.
func (c *twoTenants) movesAway(t *testing.T, name string, refused func(*discoveryv1.EndpointSlice)) {
	to := c.evil.manualService(t, name, c.Lab.Pods[1])
	for _, from := range c.clients {
		clustertest.Must(t, from.AwaitAnswers(clustertest.Context(t), to, othersPod))
	}
	for i, was := range slicesOf(name, c.Lab.Pods[1:2]) {
		is := sliceOf(was.Name, name, model.Families[i], objects.Ports(port, targetPort), 0, 1000)
		refused(is)
		_, err := c.evil.ns.UpdateSlice(clustertest.Context(t), is)
		clustertest.Must(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), takenWithin)
	defer cancel()
	for _, from := range c.clients {
		clustertest.Must(t, eventually.Try(ctx, func() error {
			return from.ComesOver(daemon.Transports(), to, silence, func(o lab.Outcome) bool { return o != lab.Answered })
		}))
	}
}

// TestExternalIPOfAPodDoesNotStopItsService claims the address and port of the bank's
// endpoint for a Service that refuses because it has no endpoints, and for one that drops
// because none of them is on the node. It has a control plane of its own, because the pods
// of all tests have the same addresses.
func TestExternalIPOfAPodDoesNotStopItsService(t *testing.T) {
	t.Parallel()
	clustertest.Program(t)
	c := withTwoTenants(t, prepareOneNode(t, clustertest.Alone, 2))
	to := c.manualService(t, "web", c.Lab.Pods[0])
	c.proxy.AwaitTruth(t)
	checkAnswered(t, c.clients, to, banksPod)
	c.evil.create(t, "web", func(s *corev1.Service) {
		s.Spec.Selector = nil
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].Port = targetPort
		}
		for _, f := range model.Families {
			s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, c.Lab.Pods[0].Addr(f).String())
		}
	})
	for _, part := range []struct {
		name string
		do   func()
	}{
		{"refuses", func() {}},
		{"drops", func() {
			c.evil.change(t, "web", externalLocal)
			c.evil.serve(t, c.Lab.Pods[1]) // on no node that is known
		}},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.do()
			c.proxy.AwaitTruth(t)
			checkAnswered(t, c.clients, to, banksPod)
		})
	}
}

// TestExternalIPOfTheNodeDoesNotTakeNodePorts has the attacker's Service first, and
// then the bank's.
func TestExternalIPOfTheNodeDoesNotTakeNodePorts(t *testing.T) {
	t.Parallel()
	c := newTwoTenants(t)
	ports := numbered(objects.Ports(port, targetPort))
	c.evil.create(t, "web", func(s *corev1.Service) {
		s.Spec.Selector = nil
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].Port = ports[i].NodePort
			s.Spec.Ports[i].TargetPort = intstr.FromInt32(targetPort)
		}
		for _, f := range model.Families {
			s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, c.Lab.Node.Addr(f).String())
		}
	})
	c.evil.serve(t, c.Lab.Pods[1])
	to := traffic.NodePort(c.create(t, "web", nodePorts, func(s *corev1.Service) {
		s.Spec.Selector, s.Spec.Ports = nil, ports
	}), c.Lab.Node)
	c.serve(t, c.Lab.Pods[0])
	c.proxy.AwaitTruth(t)
	checkAnswered(t, c.clients, to, banksPod)
}
