package cluster_test

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// The first addresses of attackers. No host of the lab has one of them.
var (
	externalBase = [...]netip.Addr{model.IPv4: netip.MustParseAddr("10.160.0.0"), model.IPv6: netip.MustParseAddr("2001:db8:e::")}
	balancerBase = netip.MustParseAddr("10.176.0.0")
	endpointBase = [...]netip.Addr{model.IPv4: netip.MustParseAddr("10.192.0.0"), model.IPv6: netip.MustParseAddr("2001:db8:a::")}
	sourceBase   = netip.MustParseAddr("100.64.0.0")
)

func texts(base netip.Addr, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = lab.After(base, i).String()
	}
	return out
}

// tcp returns n ports over TCP from 1 on, with names of the prefix.
func tcp(prefix string, n int) []corev1.ServicePort {
	out := make([]corev1.ServicePort, n)
	for i := range out {
		out[i] = corev1.ServicePort{
			Name: fmt.Sprintf("%s-%d", prefix, i+1), Protocol: corev1.ProtocolTCP,
			Port: int32(i + 1), TargetPort: intstr.FromInt32(int32(10000 + i)),
		}
	}
	return out
}

// single returns a Service without selector, of IPv4 alone.
func single(name string, ports []corev1.ServicePort, change ...func(*corev1.Service)) *corev1.Service {
	return double(name, ports, append([]func(*corev1.Service){ofIPv4}, change...)...)
}

func ofIPv4(s *corev1.Service) {
	policy := corev1.IPFamilyPolicySingleStack
	s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &policy, []corev1.IPFamily{corev1.IPv4Protocol}
}

// double returns a Service without selector, of both families.
func double(name string, ports []corev1.ServicePort, change ...func(*corev1.Service)) *corev1.Service {
	s := objects.Service(name, ports...)
	s.Spec.Selector = nil
	for _, do := range change {
		do(s)
	}
	return s
}

func external(addrs ...string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, addrs...) }
}

// ingress gives it n addresses of a load balancer, from the first-th on.
func ingress(first, n int) func(*corev1.Service) {
	return func(s *corev1.Service) {
		class, none := "tests.example.com/by-hand", false // of no controller
		s.Spec.Type, s.Spec.LoadBalancerClass, s.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeLoadBalancer, &class, &none
		for i := range n {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress,
				corev1.LoadBalancerIngress{IP: lab.After(balancerBase, first+i).String()})
		}
	}
}

// sliceOf has n endpoints of a family for ports, from the first-th address on.
func sliceOf(name, service string, f model.Family, ports []corev1.ServicePort, first, n int) *discoveryv1.EndpointSlice {
	addrs := make([]netip.Addr, n)
	for i := range addrs {
		addrs[i] = lab.After(endpointBase[f], first+i)
	}
	s := objects.Slice(name, service, ports, "", addrs...)
	s.AddressType = discoveryv1.AddressType(f.String())
	return s
}

// many makes the objects of n numbers.
func many(n int, of func(i int) []metav1.Object) func() []metav1.Object {
	return func() (all []metav1.Object) {
		for i := range n {
			all = append(all, of(i)...)
		}
		return all
	}
}

// one is [many] of one number.
func one(all ...metav1.Object) func() []metav1.Object {
	return func() []metav1.Object { return all }
}

// numberOf returns a name with a number; names of one length sort as their numbers do.
func numberOf(name string, i int) string { return fmt.Sprintf("%s-%03d", name, i) }
