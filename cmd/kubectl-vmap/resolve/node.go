package resolve

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (r *Resolver) node(ctx context.Context, name string) (Object, error) {
	n, err := r.API.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err := r.explainError(ctx, KindNode, "", name, err); err != nil {
		return Object{}, err
	}
	return nodeObject(n), nil
}

func nodeObject(n *corev1.Node) Object {
	o := Object{Kind: KindNode, Name: n.Name, Node: n.Name}
	for _, t := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range n.Status.Addresses {
			if a.Type == t {
				o.Addresses = appendAddr(o.Addresses, a.Address)
			}
		}
	}
	return o
}

// hasAddress reports whether an address is one of the node's; all are compared, also the
// second of a family.
func hasAddress(n *corev1.Node, a netip.Addr) bool {
	return slices.ContainsFunc(n.Status.Addresses, func(na corev1.NodeAddress) bool {
		b, err := netip.ParseAddr(na.Address)
		return err == nil && b.Unmap() == a
	})
}

// podRangeOf reports whether an address is in a range of pods of the node.
func podRangeOf(n *corev1.Node, a netip.Addr) bool {
	return slices.ContainsFunc(append(slices.Clone(n.Spec.PodCIDRs), n.Spec.PodCIDR), func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Contains(a)
	})
}
