package convert

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// taintToBeDeleted is the taint that the cluster autoscaler adds to a node that it is
// about to remove.
const taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"

// Node reduces a Node to the fields that the proxy reads. Parts that cannot be used
// count as absent. The errors say which.
func Node(n *corev1.Node) (*model.Node, field.ErrorList) {
	var f findings
	path := field.NewPath("metadata")
	f.invalidate(invalidName(path.Child("name"), n.Name, validation.IsDNS1123Subdomain))
	if f.invalid {
		return nil, f.list()
	}
	out := &model.Node{Name: n.Name}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		at, value := path.Child("labels").Key(key), n.Labels[key]
		if f.skip(invalidName(at, key, content.IsLabelKey), invalidName(at, value, content.IsLabelValue)) {
			continue
		}
		if labels = append(labels, key, key+"="+value); key == corev1.LabelTopologyZone {
			out.Zone = value
		}
	}
	out.Labels = model.NameSetOf(labels...)
	out.Addrs = f.nodeAddrs(n.Status.Addresses)
	out.PodCIDRs = f.podCIDRs(&n.Spec)
	return out, f.list()
}

// Ineligible returns why load balancers should not send new connections to the node
// (KEP-3836), or "" if they may.
func Ineligible(n *corev1.Node) string {
	if n.DeletionTimestamp != nil {
		return "the node is being deleted"
	}
	for i := range n.Spec.Taints {
		if n.Spec.Taints[i].Key == taintToBeDeleted {
			return "the node has the taint " + taintToBeDeleted
		}
	}
	return ""
}

// nodeAddrs returns the node's primary addresses: the first of each family among the
// internal ones, or else among the external ones.
func (f *findings) nodeAddrs(addresses []corev1.NodeAddress) (out [len(model.Families)]netip.Addr) {
	path := field.NewPath("status", "addresses")
	for _, kind := range [...]corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for i := range addresses {
			if addresses[i].Type != kind {
				continue
			}
			addr, err := ParseAddr(path.Index(i).Child("address"), addresses[i].Address)
			if f.skip(err) {
				continue
			}
			if family := model.FamilyOf(addr); !out[family].IsValid() {
				out[family] = addr
			}
		}
	}
	return out
}

// podCIDRs returns the first pod CIDR of each family. The field for a single one is
// older than the list, which repeats it.
func (f *findings) podCIDRs(spec *corev1.NodeSpec) (out [len(model.Families)]netip.Prefix) {
	path, values := field.NewPath("spec", "podCIDRs"), spec.PodCIDRs
	if len(values) == 0 && spec.PodCIDR != "" {
		values = []string{spec.PodCIDR}
	}
	for i, value := range values {
		prefix, err := ParsePrefix(path.Index(i), value)
		if f.skip(err) {
			continue
		}
		if family := model.FamilyOf(prefix.Addr()); !out[family].IsValid() {
			out[family] = prefix
		}
	}
	return out
}

// minServiceCIDRBits is the minimum prefix length of a ServiceCIDR. New connections to unallocated
// addresses of a ServiceCIDR are dropped; one for all addresses would drop everything.
const minServiceCIDRBits = 8

// ServiceCIDR reduces a ServiceCIDR to its prefixes, the ranges that ClusterIPs are allocated
// from; nil with errors if none can be used. It ignores whether the ServiceCIDR is ready.
func ServiceCIDR(c *networkingv1.ServiceCIDR) ([]netip.Prefix, field.ErrorList) {
	var f findings
	path := field.NewPath("spec", "cidrs")
	var out []netip.Prefix
	for i, value := range c.Spec.CIDRs {
		prefix, err := ParsePrefix(path.Index(i), value)
		if err == nil && prefix.Bits() < minServiceCIDRBits {
			err = field.Invalid(path.Index(i), value, "connections to all these addresses would be dropped")
		}
		if !f.skip(err) {
			out = append(out, prefix)
		}
	}
	if len(c.Spec.CIDRs) == 0 {
		f.invalidate(field.Required(path, "a ServiceCIDR needs a range"))
	}
	return out, f.list()
}
