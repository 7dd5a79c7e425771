package cluster_test

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/objects"
	"kube-vmap/model"
)

// attacks returns all attacks. TestEveryFieldIsInAnAttack checks that each field of the
// API is in one of them.
func attacks() (all []attack) {
	all = append(all, portAttacks()...)
	all = append(all, rangeAttacks()...)
	all = append(all, addressAttacks()...)
	all = append(all, serviceAttacks()...)
	all = append(all, sliceAttacks()...)
	all = append(all, endpointAttacks()...)
	return append(all, clusterAttacks()...)
}

// portAttacks returns Services with many ports.
func portAttacks() []attack {
	ownIP := func(prefix string) *corev1.Service {
		const ip = "10.96.200.1"
		return single("own-ip", tcp(prefix, 5000), external(ip), func(s *corev1.Service) { s.Spec.ClusterIP = ip })
	}
	renamed := func(prefix string) *corev1.Service { return single("renamed", tcp(prefix, 3000)) }
	return []attack{
		{
			name:   "5000-ports-at-the-own-ClusterIP",
			create: one(ownIP("before")), changes: one(ownIP("after")),
		},
		{
			name:   "3000-renamed-ports",
			create: one(renamed("before"), sliceOf("renamed", "renamed", model.IPv4, tcp("before", 3000), 0, 1)), changes: one(renamed("after")),
		},
		{
			name: "scheduler-tables",
			create: one(
				double("tables", tcp("p", 200), scheduler("mh")),
				sliceOf("tables-4", "tables", model.IPv4, tcp("p", 200), 0, 2),
				sliceOf("tables-6", "tables", model.IPv6, tcp("p", 200), 0, 2),
			),
			changes: one(sliceOf("tables-4", "tables", model.IPv4, tcp("p", 200), 1, 2)),
			// An annotation must not multiply two endpoints by a hundred.
			budgets: map[string]int64{limitElements: 30_000, limitObjects: 1_200},
		},
		{
			name:   "20-Services-with-50-scheduler-tables",
			create: many(20, tabled(0)), changes: many(20, tabled(1)),
		},
	}
}

// tabled returns Services with 25 ports in two families, and the slices of a version.
func tabled(version int) func(int) []metav1.Object {
	return func(i int) []metav1.Object {
		name := numberOf("tabled", i)
		return []metav1.Object{
			double(name, tcp("p", 25), scheduler("mh")),
			sliceOf(name+"-4", name, model.IPv4, tcp("p", 25), version, 2),
			sliceOf(name+"-6", name, model.IPv6, tcp("p", 25), version, 2),
		}
	}
}

func scheduler(name string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations = map[string]string{"kube-vmap.io/scheduler": name} }
}

// rangeAttacks returns Services with many source ranges.
func rangeAttacks() []attack {
	ranged := func(name string, address, first, n int) *corev1.Service {
		return single(name, []corev1.ServicePort{objects.Port(model.TCP, 80, 8080)}, ingress(address, 1), sources(sourceRanges(first, n)))
	}
	return []attack{
		{
			name:   "19378-source-ranges",
			create: one(ranged("ranges", 0, 0, 19_378)), changes: one(ranged("ranges", 0, 0, 0)),
		},
		{
			name:   "nested-source-ranges",
			create: one(nested(0)), changes: one(nested(1)),
		},
		{
			name: "2000-source-ranges-beside-39800",
			create: one(
				ranged("ranges", 3, 0, 0), ranged("others-1", 1, 2000, 19_900), ranged("others-2", 2, 30_000, 19_900),
			),
			// These ranges are behind those of the others in the set.
			changes: one(ranged("ranges", 3, 0, 2000), ranged("ranges", 3, 0, 0)),
		},
	}
}

// nested returns a Service with source ranges that contain and repeat each other.
func nested(version int) *corev1.Service {
	var ranges []string
	for i := range 800 {
		at := after(sourceBase[model.IPv4], 257*i+version)
		for bits := 9; bits <= 32; bits++ {
			ranges = append(ranges, netip.PrefixFrom(at, bits).Masked().String())
		}
	}
	return single("nested", []corev1.ServicePort{objects.Port(model.TCP, 80, 8080)}, ingress(0, 1), sources(ranges))
}

// addressAttacks returns Services that claim addresses of others.
func addressAttacks() []attack {
	shared := external("10.160.0.1")
	flood := func(i int) []metav1.Object {
		return []metav1.Object{single(numberOf("flood", i), tcp("p", 25), shared)}
	}
	equal := func(n int) func(int) []metav1.Object {
		return func(i int) []metav1.Object {
			return []metav1.Object{single(numberOf("equal", i), tcp("p", 1), external(texts(externalBase[model.IPv4], n)...))}
		}
	}
	return []attack{
		{
			name:   "300-Services-at-one-external-IP",
			create: many(300, flood), changes: one(single(numberOf("flood", 0), tcp("p", 25))),
		},
		{
			name:   "100-Services-with-9999-equal-external-IPs",
			create: many(100, equal(9999)), changes: many(1, equal(9998)),
		},
		{
			name:   "100-Services-with-2000-equal-external-IPs",
			create: many(100, equal(2000)), changes: many(1, equal(1999)),
		},
	}
}
