package daemon

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// ServiceCIDR returns the object with the ranges of ClusterIPs.
func ServiceCIDR() *networkingv1.ServiceCIDR {
	cidr := &networkingv1.ServiceCIDR{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR"},
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
	}
	for _, f := range model.Families {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, lab.ServiceRanges[f].String())
	}
	return cidr
}

// Zone returns the zone that [NewFolder] gives a node.
func Zone(n *lab.Node) string { return "zone-of-" + n.Name }

// NodeObject returns the object of a node, in a zone if that is not empty.
func NodeObject(n *lab.Node, zone string) *corev1.Node {
	out := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name},
	}
	if zone != "" {
		out.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	}
	for _, f := range model.Families {
		out.Spec.PodCIDRs = append(out.Spec.PodCIDRs, n.PodRange(f).String())
		out.Status.Addresses = append(out.Status.Addresses, corev1.NodeAddress{
			Type: corev1.NodeInternalIP, Address: n.Addr(f).String(),
		})
	}
	out.Spec.PodCIDR = out.Spec.PodCIDRs[0]
	return out
}
