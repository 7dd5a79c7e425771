package convert

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/model"
)

func TestNode(t *testing.T) {
	plain := model.Node{Name: "worker-1"}
	tests := map[string]struct {
		change func(*corev1.Node)
		want   func(*model.Node)
		errs   []string
	}{
		"name": {change: func(*corev1.Node) {}, want: func(*model.Node) {}},
		"zone": {
			change: func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "zone-a"} },
			want:   func(n *model.Node) { n.Zone = "zone-a" },
		},
		"invalid zone": {
			change: func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "zone,a"} },
			want:   func(*model.Node) {},
			errs:   []string{"metadata.labels[topology.kubernetes.io/zone]: Invalid value"},
		},
		"first internal address of each family": {
			change: func(n *corev1.Node) {
				n.Status.Addresses = []corev1.NodeAddress{
					{Type: corev1.NodeHostName, Address: "worker-1"},
					{Type: corev1.NodeExternalIP, Address: "198.51.100.7"},
					{Type: corev1.NodeInternalIP, Address: "2001:db8::7"},
					{Type: corev1.NodeInternalIP, Address: "192.0.2.7"},
					{Type: corev1.NodeInternalIP, Address: "192.0.2.8"},
				}
			},
			want: func(n *model.Node) { n.Addrs = addrPair("192.0.2.7", "2001:db8::7") },
		},
		"external address without an internal one": {
			change: func(n *corev1.Node) {
				n.Status.Addresses = []corev1.NodeAddress{
					{Type: corev1.NodeExternalIP, Address: "198.51.100.7"},
					{Type: corev1.NodeExternalIP, Address: "2001:db8::9"},
					{Type: corev1.NodeInternalIP, Address: "192.0.2.7"},
					{Type: corev1.NodeInternalIP, Address: "none"},
				}
			},
			want: func(n *model.Node) { n.Addrs = addrPair("192.0.2.7", "2001:db8::9") },
			errs: []string{"status.addresses[3].address: Invalid value"},
		},
		"first pod CIDR of each family": {
			change: func(n *corev1.Node) {
				n.Spec.PodCIDR = "10.244.1.0/24"
				n.Spec.PodCIDRs = []string{"10.244.1.0/24", "10.245.1.0/24", "fd00:10:244:1::/64"}
			},
			want: func(n *model.Node) { n.PodCIDRs = prefixPair("10.244.1.0/24", "fd00:10:244:1::/64") },
		},
		"single pod CIDR": {
			change: func(n *corev1.Node) { n.Spec.PodCIDR = "fd00:10:244:1::/64" },
			want: func(n *model.Node) {
				n.PodCIDRs[model.IPv6] = netip.MustParsePrefix("fd00:10:244:1::/64")
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
			test.change(node)
			want := plain
			test.want(&want)
			got, errs := Node(node)
			if got == nil || *got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			check(t, "errors", test.errs, fields(errs))
		})
	}
}

func TestNodeWithInvalidNameIsRefused(t *testing.T) {
	got, errs := Node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker 1"}})
	if got != nil || len(errs) != 1 {
		t.Errorf("got %v, errors %v", got, errs)
	}
}

func addrPair(v4, v6 string) [len(model.Families)]netip.Addr {
	return [...]netip.Addr{model.IPv4: netip.MustParseAddr(v4), model.IPv6: netip.MustParseAddr(v6)}
}

func prefixPair(v4, v6 string) [len(model.Families)]netip.Prefix {
	return [...]netip.Prefix{model.IPv4: netip.MustParsePrefix(v4), model.IPv6: netip.MustParsePrefix(v6)}
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
