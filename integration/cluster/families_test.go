package cluster_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// ofFamilies makes a Service one of these families, the first of which it began
// with.
func ofFamilies(families ...model.Family) func(*corev1.Service) {
	return func(s *corev1.Service) {
		policy := corev1.IPFamilyPolicySingleStack
		if len(families) > 1 {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &policy, nil
		for _, f := range families {
			s.Spec.IPFamilies = append(s.Spec.IPFamilies, corev1.IPFamily(f.String()))
		}
		if len(s.Spec.ClusterIPs) > len(families) {
			s.Spec.ClusterIPs = s.Spec.ClusterIPs[:len(families)]
		}
	}
}

// TestServicesAreServedInTheirFamilies has Services begin with one
// family, get the other, and lose it again, at ClusterIP and node port.
func TestServicesAreServedInTheirFamilies(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 1)
	for _, first := range model.Families {
		t.Run("first "+first.String(), func(t *testing.T) {
			t.Parallel()
			second := model.Families[1-first]
			name := fmt.Sprintf("family-%d", first)
			s := c.create(t, name, ofFamilies(first), nodePorts)
			_, err := c.ns.CreatePod(clustertest.Context(t), name, name, c.At(c.Lab.RemotePods[0]))
			clustertest.Must(t, err)
			one := func() {
				t.Helper()
				clustertest.Must(t, c.ns.AwaitEndpoints(clustertest.Context(t), name, 1, first))
				c.awaitRules(t)
				checkAnsweredOver(t, traffic.Of(first), c.clients, traffic.Service(s, port), "remote-1")
				checkAnsweredOver(t, traffic.Of(first), c.clients, c.both(s)[0], "remote-1")
				for _, p := range []model.Protocol{model.TCP, model.UDP} {
					checkOutcomeOver(t, []daemon.Transport{{Protocol: p, Family: second}}, c.clients, c.both(s)[0], lab.Refused)
				}
			}
			one()
			s = c.change(t, name, ofFamilies(first, second))
			clustertest.Must(t, c.ns.AwaitEndpoints(clustertest.Context(t), name, 1))
			c.awaitRules(t)
			both := traffic.Service(s, port)
			checkAnswered(t, c.clients, both, "remote-1")
			checkAnswered(t, c.clients, c.both(s)[1], "remote-1")
			s = c.change(t, name, ofFamilies(first))
			one()
			checkOutcomeOver(t, traffic.Of(second), []*traffic.Client{c.near, c.far}, both, lab.TimedOut)
		})
	}
}

// TestServicesAreServedInEveryServiceCIDR adds a range for each family, and takes
// it back. The test has a control plane of its own: others would get Services
// there, too.
func TestServicesAreServedInEveryServiceCIDR(t *testing.T) {
	t.Parallel()
	clustertest.Program(t)
	c := prepareTwoNodes(t, clustertest.Alone, 1)
	for i, n := range []*lab.Node{c.Lab.Node, c.Lab.Remote} {
		c.proxies[i] = c.Proxy(t, n)
	}
	ranges := [...]netip.Prefix{netip.MustParsePrefix("10.97.0.0/24"), netip.MustParsePrefix("fd00:10:97::/112")}
	for _, f := range model.Families {
		clustertest.Must(t, c.Lab.Outside.AddRoute(ranges[f], c.Lab.Node.Addr(f)))
	}
	to := traffic.Target{Name: "another range", Port: port, Addrs: [...]netip.Addr{
		netip.MustParseAddr("10.97.0.7"), netip.MustParseAddr("fd00:10:97::7"),
	}}
	free := to
	free.Name = "no Service in another range"
	for f, a := range to.Addrs {
		free.Addrs[f] = a.Next()
	}
	ctx := clustertest.Context(t)
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "another"}}
	for _, r := range ranges {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, r.String())
	}
	_, err := c.Client.NetworkingV1().ServiceCIDRs().Create(ctx, cidr, metav1.CreateOptions{})
	clustertest.Must(t, err)
	c.awaitRules(t)
	checkOutcome(t, []*traffic.Client{c.near, c.far}, to, lab.TimedOut)
	old := c.service(t, "old")
	c.scaled(t, "old", c.At(c.Lab.Pods[0]))
	clustertest.Must(t, eventually.Try(ctx, func() error { return c.createAt(ctx, "new", to) })) // the API server needs its time for a new range
	c.scaled(t, "new", c.At(c.Lab.RemotePods[0]))
	checkAnswered(t, c.clients, old, "pod-1")
	checkAnswered(t, c.clients, to, "remote-1")
	checkOutcome(t, []*traffic.Client{c.near, c.far}, free, lab.TimedOut)
	checkOutcome(t, []*traffic.Client{c.near, c.far}, onPort(to, port+1), lab.Refused)

	clustertest.Must(t, c.ns.DeleteService(ctx, "new"))
	clustertest.Must(t, c.Client.NetworkingV1().ServiceCIDRs().Delete(ctx, "another", metav1.DeleteOptions{}))
	c.awaitRules(t)
	checkAnswered(t, c.clients, old, "pod-1")
}

// createAt makes a Service with the target's addresses as ClusterIPs.
func (c *scene) createAt(ctx context.Context, name string, at traffic.Target) error {
	s := objects.Service(name, objects.Ports(port, targetPort)...)
	for _, a := range at.Addrs {
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, a.String())
	}
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	_, err := c.ns.CreateService(ctx, s)
	return err
}
