package cluster_test

import (
	"context"
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

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
