package cluster_test

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// attacks returns an attack for each limit of docs/security.md that an author of Services can
// reach: with as much as is served, or with more than that.
func attacks() []attack {
	const elsewhere = 200_000 // addresses
	return []attack{
		{"20-Services-with-2000-external-addresses", external20("before"), external20("after")},
		{"100-Services-with-2000-equal-external-IPs", many(100, equal(2000)), many(1, equal(1999))},
		{"nested-source-ranges", one(nested(0)), one(nested(1))},
		{"20-Services-with-50-scheduler-tables", many(20, tabled(0)), many(20, tabled(1))},
		{"2000-endpoints-with-100-ports", one(large(2, 100, 0)...), one(large(2, 100, elsewhere)[1:]...)},
		{"more-endpoints-than-are-served", one(large(5, 100, 0)...), one(large(5, 100, elsewhere)[1:]...)},
		{"100-slices-of-1000-endpoints", one(large(100, 1, 0)...), one(large(100, 1, elsewhere)[1:]...)},
		{"200-health-check-node-ports", healthChecked(externalLocal), healthChecked(externalCluster)},
		{"40-Services-of-long-texts", longTexts("a"), longTexts("b")},
		{"20-Services-with-addresses-that-cannot-be-used", unusable(0), unusable(1)},
	}
}

// external20 returns Services with as many external IPs at two ports as are served.
func external20(prefix string) func() []metav1.Object {
	const each = 1000
	return many(20, func(i int) []metav1.Object {
		all := texts(lab.After(externalBase[model.IPv4], i*each), each)
		return []metav1.Object{single(numberOf("external", i), tcp(prefix, 2), external(all...))}
	})
}

// equal returns Services that claim the same n external IPs.
func equal(n int) func(int) []metav1.Object {
	return func(i int) []metav1.Object {
		return []metav1.Object{single(numberOf("equal", i), tcp("p", 1), external(texts(externalBase[model.IPv4], n)...))}
	}
}

// nested returns a Service with source ranges that contain and repeat each other.
func nested(version int) *corev1.Service {
	var ranges []string
	for i := range 800 {
		at := lab.After(sourceBase, 257*i+version)
		for bits := 9; bits <= 32; bits++ {
			ranges = append(ranges, netip.PrefixFrom(at, bits).Masked().String())
		}
	}
	return single("nested", []corev1.ServicePort{objects.Port(model.TCP, 80, 8080)}, ingress(0, 1),
		func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = ranges })
}

// tabled returns Services with 25 ports in two families, and the slices of a version.
func tabled(version int) func(int) []metav1.Object {
	return func(i int) []metav1.Object {
		name := numberOf("tabled", i)
		s := double(name, tcp("p", 25))
		s.Annotations = map[string]string{"kube-vmap.io/scheduler": "mh"}
		return []metav1.Object{
			s,
			sliceOf(name+"-4", name, model.IPv4, tcp("p", 25), version, 2),
			sliceOf(name+"-6", name, model.IPv6, tcp("p", 25), version, 2),
		}
	}
}

// large returns a Service with slices of as many endpoints as the API takes, from the
// first-th on.
func large(slices, ports, first int) []metav1.Object {
	const most = 1000
	all := []metav1.Object{single("large", tcp("p", ports))}
	for i := range slices {
		all = append(all, sliceOf(numberOf("large", i), "large", model.IPv4, tcp("p", ports), first+i*most, most))
	}
	return all
}

// healthChecked returns Services whose load balancers ask for local endpoints, or not.
func healthChecked(policy func(*corev1.Service)) func() []metav1.Object {
	return many(200, func(i int) []metav1.Object {
		name := numberOf("health", i)
		return []metav1.Object{
			single(name, []corev1.ServicePort{objects.Port(model.TCP, 80, 8080)}, ingress(i, 1), policy),
			sliceOf(name, name, model.IPv4, tcp("p", 1), 0, 10),
		}
	})
}

// longTexts returns Services with annotations, labels, names and conditions as long as the
// API takes them.
func longTexts(fill string) func() []metav1.Object {
	return many(40, func(i int) []metav1.Object {
		s := single(numberOf("long", i)+strings.Repeat("x", 63-len(numberOf("long", i))), tcp(strings.Repeat("p", 58), 20))
		s.Annotations = map[string]string{
			"example.com/long":       strings.Repeat(fill, 150<<10),
			"kube-vmap.io/scheduler": strings.Repeat(fill, 10<<10),
		}
		s.Labels = map[string]string{}
		for n := range 200 {
			s.Labels[fmt.Sprintf("example.com/label-%d", n)] = strings.Repeat(fill, 63)
		}
		s.Status.Conditions = []metav1.Condition{{
			Type: "example.com/Long", Status: metav1.ConditionTrue, Reason: "Long", Message: strings.Repeat(fill, 32<<10),
			LastTransitionTime: metav1.Now(),
		}}
		return []metav1.Object{s}
	})
}

// unusable returns Services with external IPs of a family that they do not have, and with
// some that the API accepts and no host can have.
func unusable(version int) func() []metav1.Object {
	return many(20, func(i int) []metav1.Object {
		addrs := texts(lab.After(externalBase[model.IPv6], version), 4900)
		for range 99 {
			addrs = append(addrs, "255.255.255.255")
		}
		return []metav1.Object{single(numberOf("unusable", i), tcp("p", 1), external(addrs...))}
	})
}

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
