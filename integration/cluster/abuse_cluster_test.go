package cluster_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// clusterAttacks returns attacks with objects outside of namespaces. What a
// ServiceCIDR covers is cut off, so these cover no address that is in use.
func clusterAttacks() []attack {
	return []attack{
		{
			name: "200-ServiceCIDRs",
			create: many(200, func(i int) []metav1.Object {
				bits := 20 + i%13 // up to a single address
				return []metav1.Object{cidr(numberOf("odd", i), fmt.Sprintf("10.%d.%d.0/%d", 120+i%2, 16*(i%16), min(bits, 24)), fmt.Sprintf("fd00:10:%x::/%d", 0x200+i, 108+i%21))}
			}),
			changes: one(), // the API refuses changes of them
		},
		{
			name:    "a-Node-with-everything",
			create:  one(oddNode(0)),
			changes: many(10, func(i int) []metav1.Object { return []metav1.Object{oddNode(i + 1)} }),
		},
	}
}

// oddNode returns the n-th version of a Node with long labels and annotations and with many
// taints and addresses, in a zone that changes.
func oddNode(n int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        "node",
		Labels:      map[string]string{corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", n)},
		Annotations: map[string]string{"example.com/long": strings.Repeat(fmt.Sprint(n%10), 250<<10)},
	}}
	for i := range 1000 {
		node.Labels[fmt.Sprintf("example.com/label-%d", i)] = strings.Repeat("x", 63)
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: fmt.Sprintf("example.com/taint-%d", i), Effect: corev1.TaintEffectPreferNoSchedule})
	}
	kinds := []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeHostName, corev1.NodeInternalDNS}
	odd := []string{"0.0.0.0", "::", "127.0.0.1", "224.0.0.1", "255.255.255.255", "fe80::1%eth0", "010.0.0.1", "", "x\"\n", "::ffff:10.0.0.1"}
	for i := range 3000 {
		address := odd[i%len(odd)]
		if i >= 2*len(odd) {
			address = after(externalBase[i%2], n+i).String()
		}
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: kinds[i/len(odd)%len(kinds)], Address: address})
	}
	return node
}
