package cluster_test

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// elsewhere are the ranges of external IPs and of load balancers: no host has an
// address of these.
var elsewhere = [...]netip.Prefix{
	model.IPv4: netip.MustParsePrefix("198.18.0.0/15"), model.IPv6: netip.MustParsePrefix("2001:db8:18::/64"),
}

// taken counts addresses of elsewhere: all tests' Services are in one API, and two
// of them cannot have the same one.
var taken atomic.Uint32

// anywhere returns an address of elsewhere of each family that no Service has.
func anywhere() (out [len(model.Families)]netip.Addr) {
	n := taken.Add(1)
	for f, r := range elsewhere {
		b := r.Addr().AsSlice()
		b[len(b)-2], b[len(b)-1] = byte(n>>8), byte(n)
		out[f], _ = netip.AddrFromSlice(b)
	}
	return out
}

// routeElsewhere has the host outside send what is for elsewhere to the node.
func routeElsewhere(t *testing.T, l *lab.Lab, n *lab.Node) {
	t.Helper()
	for _, f := range model.Families {
		clustertest.Must(t, l.Outside.AddRoute(elsewhere[f], n.Addr(f)))
	}
}

// What makes a Service differ from others.

func externalLocal(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func externalCluster(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
}

// balanced changes the type of a Service to LoadBalancer, of a class without a controller.
func balanced(s *corev1.Service) {
	class := "tests.example.com/by-hand"
	s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &class
}

func withoutNodePorts(s *corev1.Service) {
	none := false
	s.Spec.AllocateLoadBalancerNodePorts = &none
}

// balancer gives a Service of type LoadBalancer addresses, as a cloud would, and
// returns where clients find it.
func (c *scene) balancer(t *testing.T, name string) traffic.Target {
	t.Helper()
	addrs := anywhere()
	var ingress []corev1.LoadBalancerIngress
	for _, a := range addrs {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: a.String()})
	}
	clustertest.Must(t, c.ns.SetLoadBalancer(clustertest.Context(t), name, ingress...))
	return traffic.Target{Name: fmt.Sprintf("load balancer of %s/%s", c.ns.Name, name), Addrs: addrs, Port: port}
}
