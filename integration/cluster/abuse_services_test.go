package cluster_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/objects"
	"kube-vmap/model"
)

// serviceAttacks returns Services with everything that a Service may have, single ones and
// hundreds.
func serviceAttacks() []attack {
	withExternalIPs := func(prefix string) func() []metav1.Object {
		const each = 1000 // at two ports, as many as are served
		return many(20, func(i int) []metav1.Object {
			all := texts(after(externalBase[model.IPv4], i*each), each)
			return []metav1.Object{single(numberOf("external", i), tcp(prefix, 2), external(all...))}
		})
	}
	nodePorted := func(kind corev1.ServiceType) []metav1.Object {
		return []metav1.Object{single("node-ports", tcp("p", 1000), func(s *corev1.Service) {
			s.Spec.Type = kind
			for i := range s.Spec.Ports {
				if kind == corev1.ServiceTypeNodePort {
					s.Spec.Ports[i].NodePort = int32(30200 + i)
				}
			}
		})}
	}
	return []attack{
		{
			name:   "20-Services-with-2000-external-addresses",
			create: withExternalIPs("before"), changes: withExternalIPs("after"),
		},
		{
			name:   "1000-node-ports",
			create: one(nodePorted(corev1.ServiceTypeNodePort)...), changes: one(nodePorted(corev1.ServiceTypeClusterIP)...),
		},
		{name: "200-health-check-node-ports", create: healthChecked(externalLocal), changes: healthChecked(externalCluster)},
		{name: "5000-load-balancer-addresses", create: one(balancedByMany(0)), changes: one(balancedByMany(1))},
		{name: "40-Services-of-long-texts", create: longTexts("a"), changes: longTexts("b")},
		{name: "20-Services-with-addresses-that-cannot-be-used", create: unusable(0), changes: unusable(1)},
		{name: "200-Services-of-every-kind", create: everyKind(0), changes: everyKind(1)},
	}
}

// healthChecked returns Services whose load balancers ask for local endpoints, or not.
func healthChecked(policy func(*corev1.Service)) func() []metav1.Object {
	return many(200, func(i int) []metav1.Object {
		name := numberOf("health", i)
		return []metav1.Object{single(name, []corev1.ServicePort{objects.Port(model.TCP, 80, 8080)}, ingress(i, 1), policy), slice4(name, name, 1, 0, 10)}
	})
}

// balancedByMany returns a Service with 4,999 addresses of load balancers at two ports, in
// modes that change with the version.
func balancedByMany(version int) *corev1.Service {
	const n = 4999
	s := single("balanced", tcp("p", 2), ingress(0, n))
	for i := range s.Status.LoadBalancer.Ingress {
		at := &s.Status.LoadBalancer.Ingress[i]
		mode := corev1.LoadBalancerIPModeVIP
		if (i+version)%2 == 0 {
			mode = corev1.LoadBalancerIPModeProxy
		}
		at.IPMode = &mode
		if i%10 == 0 {
			at.Ports = []corev1.PortStatus{{Port: 1, Protocol: corev1.ProtocolTCP, Error: new("example.com/Broken")}}
		}
		if i%50 == 0 {
			at.Hostname = fmt.Sprintf("host-%d.example.com", i)
		}
	}
	s.Spec.LoadBalancerIP = "192.0.2.77"
	return s
}

// longTexts returns Services with annotations, labels, names and conditions as long as the
// API takes them.
func longTexts(fill string) func() []metav1.Object {
	return many(40, func(i int) []metav1.Object {
		s := single(numberOf("long", i)+strings.Repeat("x", 63-len(numberOf("long", i))), tcp(strings.Repeat("p", 58), 20), annotated(fill, 150<<10))
		s.Annotations["kube-vmap.io/scheduler"] = strings.Repeat(fill, 10<<10)
		s.Labels = map[string]string{}
		for n := range 200 {
			s.Labels[fmt.Sprintf("example.com/label-%d", n)] = strings.Repeat(fill, 63)
		}
		s.Spec.Selector = map[string]string{"app": strings.Repeat(fill, 63)}
		for n := range s.Spec.Ports {
			s.Spec.Ports[n].AppProtocol = new("example.com/" + strings.Repeat(fill, 63))
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
		addrs := texts(after(externalBase[model.IPv6], version), 4900)
		for range 99 {
			addrs = append(addrs, "255.255.255.255")
		}
		return []metav1.Object{single(numberOf("unusable", i), tcp("p", 1), external(addrs...))}
	})
}

// everyKind returns small Services of all types, policies, families and schedulers, which
// change into each other.
func everyKind(version int) func() []metav1.Object {
	schedulers := []string{"rr", "sh", "mh", "lc", "dh", "none"}
	kinds := []func(*corev1.Service){
		func(*corev1.Service) {},
		nodePorts,
		func(s *corev1.Service) { balanced(s); withoutNodePorts(s); externalLocal(s) },
		internalLocal,
		affine,
		func(s *corev1.Service) {
			s.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameNode)
		},
		func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true },
	}
	return many(200, func(i int) []metav1.Object {
		kind := kinds[(i+version)%len(kinds)]
		name := numberOf("kind", i)
		return []metav1.Object{
			double(name, objects.Ports(80, 8080), scheduler(schedulers[(i+version)%len(schedulers)]), kind),
			sliceOf(name+"-4", name, model.IPv4, objects.Ports(80, 8080), i, 5),
			sliceOf(name+"-6", name, model.IPv6, objects.Ports(80, 8080), i, 5),
		}
	})
}
