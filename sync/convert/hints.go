package convert

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"kube-vmap/model"
)

// hintsField returns the field of a Service by which the EndpointSlice controller sets hints, with
// its value; empty if there is none. The annotation comes first there (topologycache in
// k8s.io/endpointslice). Only values that the API knows are kept, so that it takes no memory.
func hintsField(s *corev1.Service) string {
	for _, name := range [...]string{corev1.AnnotationTopologyMode, corev1.DeprecatedAnnotationTopologyAwareHints} {
		if mode, found := s.Annotations[name]; found {
			if mode == "Auto" || mode == "auto" {
				return topologyFields[name]
			}
			break
		}
	}
	switch ptr.Deref(s.Spec.TrafficDistribution, "") {
	case corev1.ServiceTrafficDistributionPreferClose:
		return "spec.trafficDistribution: PreferClose"
	case corev1.ServiceTrafficDistributionPreferSameZone:
		return "spec.trafficDistribution: PreferSameZone"
	case corev1.ServiceTrafficDistributionPreferSameNode:
		return "spec.trafficDistribution: PreferSameNode"
	}
	return ""
}

// topologyFields are the annotations that ask for hints by zone, as fields.
var topologyFields = map[string]string{
	corev1.AnnotationTopologyMode: "metadata.annotations[" + corev1.AnnotationTopologyMode + "]: Auto",
	corev1.DeprecatedAnnotationTopologyAwareHints: "metadata.annotations[" +
		corev1.DeprecatedAnnotationTopologyAwareHints + "]: Auto",
}

// hints returns the zones and nodes that should prefer endpoint i. Invalid names are skipped.
func (f *findings) hints(i int, h *discoveryv1.EndpointHints) (zones, nodes model.NameSet) {
	if h == nil {
		return "", ""
	}
	names := make([]string, 0, max(len(h.ForZones), len(h.ForNodes)))
	for j := range h.ForZones {
		names = append(names, h.ForZones[j].Name)
	}
	zones = f.nameSet(i, "forZones", names, content.IsLabelValue)
	names = names[:0]
	for j := range h.ForNodes {
		names = append(names, h.ForNodes[j].Name)
	}
	return zones, f.nameSet(i, "forNodes", names, validation.IsDNS1123Subdomain)
}

// nameSet returns the set of those names of endpoint i's hints in which problems finds none.
func (f *findings) nameSet(i int, list string, names []string, problems func(string) []string) model.NameSet {
	var good []string
	for j, name := range names {
		if !isPlainName(name) || len(name) > content.LabelValueMaxLength {
			path := field.NewPath("hints", list).Index(j).Child("name")
			if f.skip(inEndpoint(i, invalidName(path, name, problems))) {
				continue
			}
		}
		good = append(good, name)
	}
	return model.NameSetOf(good...)
}

// isPlainName reports whether a name satisfies validation.IsDNS1123Subdomain. It does
// without that function's regular expression, which costs more than all the rest of
// an endpoint, and there may be hundreds of thousands.
func isPlainName(name string) bool {
	if len(name) == 0 || len(name) > validation.DNS1123SubdomainMaxLength {
		return false
	}
	before := byte('.')
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '-' && before != '.':
		case c == '.' && before != '.' && before != '-':
		default:
			return false
		}
		before = name[i]
	}
	return before != '.' && before != '-'
}
