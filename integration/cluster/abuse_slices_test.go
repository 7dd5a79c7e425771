package cluster_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/model"
)

// slice4 has n endpoints of IPv4 from the first-th on.
func slice4(name, service string, ports, first, n int) *discoveryv1.EndpointSlice {
	return sliceOf(name, service, model.IPv4, tcp("p", ports), first, n)
}

// large returns a Service with slices of as many endpoints as the API takes, from the
// first-th on.
func large(slices, ports, first int) []metav1.Object {
	const most = 1000
	all := []metav1.Object{single("large", tcp("p", ports))}
	for i := range slices {
		all = append(all, slice4(numberOf("large", i), "large", ports, first+i*most, most))
	}
	return all
}

// weighted returns a Service of both families with two endpoints of each, one of them with a
// weight, and many ports.
func weighted(ports int, weight string) []metav1.Object {
	all := []metav1.Object{double("weighted", tcp("p", ports))}
	for _, f := range model.Families {
		heavy := sliceOf("heavy-"+strings.ToLower(f.String()), "weighted", f, tcp("p", ports), 0, 1)
		heavy.Annotations = map[string]string{"kube-vmap.io/weight": weight}
		all = append(all, heavy, sliceOf("light-"+strings.ToLower(f.String()), "weighted", f, tcp("p", ports), 1, 1))
	}
	return all
}

// sliceAttacks returns EndpointSlices with many endpoints, of one Service and of many.
func sliceAttacks() []attack {
	const few = 500
	each := func(count, first int, change ...func(*corev1.Service)) func() []metav1.Object {
		return many(count, func(i int) []metav1.Object {
			name := numberOf("each", i)
			return []metav1.Object{single(name, tcp("p", 1), change...), slice4(name, name, 1, first+i*few, few)}
		})
	}
	sticky := func(first int) []metav1.Object {
		all := large(10, 1, first)
		affine(all[0].(*corev1.Service))
		return all
	}
	const elsewhere = 200_000
	return []attack{
		{
			name:   "1000-endpoints-with-100-ports",
			create: one(large(1, 100, 0)...), changes: one(large(1, 100, elsewhere)[1:]...),
		},
		{
			name:   "100-slices-of-1000-endpoints",
			create: one(large(100, 1, 0)...), changes: one(large(100, 1, elsewhere)[1:]...),
		},
		{
			name:   "200-Services-with-500-endpoints",
			create: each(200, 0), changes: each(200, elsewhere),
		},
		{
			// Nearly as many as are served.
			name:   "2000-endpoints-with-100-ports",
			create: one(large(2, 100, 0)...), changes: one(large(2, 100, elsewhere)[1:]...),
		},
		{
			name:   "more-endpoints-than-are-served",
			create: one(large(5, 100, 0)...), changes: one(large(5, 100, elsewhere)[1:]...),
		},
		{
			name:   "100-ports-of-two-weighted-endpoints",
			create: one(weighted(100, "65535")...), changes: one(weighted(100, "64")[1:]...),
		},
		{
			name:   "10000-endpoints-with-affinity",
			create: one(sticky(0)...), changes: one(sticky(elsewhere)[1:]...),
		},
		{
			name:   "20-Services-with-500-endpoints-and-affinity",
			create: each(20, 0, affine), changes: each(20, elsewhere, affine),
		},
	}
}

// affine returns the longest session affinity.
func affine(s *corev1.Service) { sticky(86400)(s) }

// endpointAttacks returns endpoints with everything that is permitted, and more.
func endpointAttacks() []attack {
	const flaps = 20
	return []attack{
		{
			name: "flapping-endpoints",
			create: func() []metav1.Object {
				return []metav1.Object{single("flaps", tcp("p", 1)), flapping(0)}
			},
			changes: many(flaps, func(i int) []metav1.Object { return []metav1.Object{flapping(i + 1)} }),
		},
		{name: "slices-of-others-and-of-no-Service", create: strange(0), changes: strange(1)},
	}
}

// flapping returns the n-th version of a slice whose endpoints have conditions, places and
// hints that differ from version to version.
func flapping(n int) *discoveryv1.EndpointSlice {
	s := slice4("flaps", "flaps", 1, 0, 1000)
	for i := range s.Endpoints {
		e, odd := &s.Endpoints[i], (i+n)%2 == 1
		terminating := (i+n)%3 == 0
		e.Conditions = discoveryv1.EndpointConditions{Ready: &odd, Serving: new(!odd), Terminating: &terminating}
		e.NodeName, e.Zone = new(fmt.Sprintf("node-%d", i%7)), new("zone-a")
		e.Hostname = new(fmt.Sprintf("host-%d", i))
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("pod-%d", i)}
		if odd {
			e.Hints = &discoveryv1.EndpointHints{}
			for z := range 8 {
				e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: fmt.Sprintf("zone-%c", 'a'+(z+n)%26)})
				e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: fmt.Sprintf("node-%d", z+n)})
			}
		}
	}
	return s
}

// strange returns slices that name the victim, that are of no IP family, that repeat the
// addresses of others, and that have ports without a number or 20,000 of them.
func strange(version int) func() []metav1.Object {
	return many(4, func(i int) []metav1.Object {
		victims := slice4(numberOf("victims", i), "victim", 1, 0, 1000)
		repeated := slice4(numberOf("repeated", i), "repeated", 1, version, 1000)
		names := sliceOf(numberOf("names", i), "repeated", model.IPv4, tcp("p", 1), 0, 0)
		names.AddressType = discoveryv1.AddressTypeFQDN
		for n := range 100 {
			names.Endpoints = append(names.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("host-%d-%d.example.com", version, n)}})
		}
		ports := slice4(numberOf("ports", i), "repeated", 0, version, 100)
		for n := range 20_000 {
			ports.Ports = append(ports.Ports, discoveryv1.EndpointPort{Name: new(fmt.Sprintf("p-%d", n)), AppProtocol: new("example.com/x")})
		}
		addresses := slice4(numberOf("addresses", i), "repeated", 1, 0, 100)
		for n := range addresses.Endpoints {
			addresses.Endpoints[n].Addresses = texts(endpointBase[model.IPv4], 100)
		}
		all := []metav1.Object{victims, repeated, names, ports, addresses}
		if i == 0 {
			all = append(all, single("repeated", tcp("p", 3)))
		}
		return all
	})
}
