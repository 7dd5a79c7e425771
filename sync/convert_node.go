package sync

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// ConvertNode reduces a Node to what the proxy reads of it: its name and its
// zone. A zone that cannot exist counts as none.
func ConvertNode(n *corev1.Node) (*model.Node, field.ErrorList) {
	path := field.NewPath("metadata")
	if err := invalidName(path.Child("name"), n.Name, validation.IsDNS1123Subdomain); err != nil {
		return nil, field.ErrorList{err}
	}
	zone := n.Labels[corev1.LabelTopologyZone]
	if err := invalidName(path.Child("labels").Key(corev1.LabelTopologyZone), zone, content.IsLabelValue); err != nil {
		return &model.Node{Name: n.Name}, field.ErrorList{err}
	}
	return &model.Node{Name: n.Name, Zone: zone}, nil
}

// ConvertServiceCIDR reduces a ServiceCIDR to the ranges from which ClusterIPs
// are taken; nil with errors if none can be used. Whether the ServiceCIDR is
// ready does not matter.
func ConvertServiceCIDR(c *networkingv1.ServiceCIDR) ([]netip.Prefix, field.ErrorList) {
	var f findings
	path := field.NewPath("spec", "cidrs")
	var out []netip.Prefix
	for i, value := range c.Spec.CIDRs {
		prefix, err := parsePrefix(path.Index(i), value)
		if !f.leaveOut(err) {
			out = append(out, prefix)
		}
	}
	if len(c.Spec.CIDRs) == 0 {
		f.refuse(field.Required(path, "a ServiceCIDR needs a range"))
	}
	return out, f.errs
}
