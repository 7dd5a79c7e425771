package convert

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/model"
)

func TestNode(t *testing.T) {
	same := func(*model.Node) {}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
	wanted := func() *model.Node { return &model.Node{Name: "worker-1"} }
	checkConversions(t, Node, node, wanted, map[string]conversionTest[model.Node]{
		"name": {"", same, ""},
		"zone": {
			"metadata: {labels: {topology.kubernetes.io/zone: zone-a}}",
			func(n *model.Node) {
				n.Zone, n.Labels = "zone-a", "topology.kubernetes.io/zone,topology.kubernetes.io/zone=zone-a"
			}, "",
		},
		"invalid zone": {
			`metadata: {labels: {topology.kubernetes.io/zone: "zone,a"}}`, same,
			"metadata.labels[topology.kubernetes.io/zone]: Invalid value",
		},
		"first internal address of each family": {
			`status: {addresses: [{type: Hostname, address: worker-1}, {type: ExternalIP, address: 198.51.100.7},
			 {type: InternalIP, address: "2001:db8::7"}, {type: InternalIP, address: 192.0.2.7},
			 {type: InternalIP, address: 192.0.2.8}]}`,
			func(n *model.Node) { n.Addrs = [2]netip.Addr(addrs("192.0.2.7 2001:db8::7")) }, "",
		},
		"external address without an internal one": {
			`status: {addresses: [{type: ExternalIP, address: 198.51.100.7}, {type: ExternalIP, address: "2001:db8::9"},
			 {type: InternalIP, address: 192.0.2.7}, {type: InternalIP, address: none}]}`,
			func(n *model.Node) { n.Addrs = [2]netip.Addr(addrs("192.0.2.7 2001:db8::9")) },
			"status.addresses[3].address: Invalid value",
		},
		"first pod CIDR of each family": {
			`spec: {podCIDR: 10.244.1.0/24, podCIDRs: [10.244.1.0/24, 10.245.1.0/24, "fd00:10:244:1::/64"]}`,
			func(n *model.Node) {
				n.PodCIDRs = [...]netip.Prefix{
					netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64"),
				}
			}, "",
		},
		"single pod CIDR": {
			`spec: {podCIDR: "fd00:10:244:1::/64"}`,
			func(n *model.Node) { n.PodCIDRs[model.IPv6] = netip.MustParsePrefix("fd00:10:244:1::/64") }, "",
		},
		"invalid name, which refuses the node": {"metadata: {name: worker 1}", nil, "metadata.name: Invalid value"},
	})
}

func TestIneligible(t *testing.T) {
	for want, n := range map[string]corev1.Node{
		"":                          {Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "other"}}}},
		"the node is being deleted": {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}},
		"the node has the taint ToBeDeletedByClusterAutoscaler": {
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "other"}, {Key: "ToBeDeletedByClusterAutoscaler"}}},
		},
	} {
		if got := Ineligible(&n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
