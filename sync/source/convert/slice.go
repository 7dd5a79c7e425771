package convert

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"kube-vmap/model"
)

// LabelHeadless is the label of EndpointSlices of headless Services, whatever its value.
const LabelHeadless = "service.kubernetes.io/headless"

// Slice reduces an EndpointSlice to the fields that the proxy reads, with the same kinds of results
// as [Service]. It does not serve slices of headless Services and of no Service.
func Slice(s *discoveryv1.EndpointSlice) (*model.EndpointSlice, field.ErrorList) {
	service := s.Labels[discoveryv1.LabelServiceName]
	_, headless := s.Labels[LabelHeadless]
	if headless || service == "" {
		return nil, nil
	}
	var f findings
	f.checkNames(&s.ObjectMeta, validation.IsDNS1123Subdomain)
	f.invalidate(invalidName(pathServiceName, service, validation.IsDNS1123Label))
	family := f.addressFamily(s.AddressType)
	if f.invalid {
		// Without a family, every endpoint would be one more error.
		return nil, f.list()
	}
	out := &model.EndpointSlice{
		Name:      model.EndpointSliceName{Namespace: s.Namespace, Name: s.Name},
		Service:   model.ServiceName{Namespace: s.Namespace, Name: service},
		Family:    family,
		Ports:     f.slicePorts(s.Ports),
		Endpoints: f.endpoints(s.Endpoints, family),
	}
	f.weight(out, s.Annotations)
	f.priority(out, s.Annotations)
	out.Managed = strings.HasSuffix(s.Labels[discoveryv1.LabelManagedBy], controllerSuffix)
	f.invalidate(tooMany(pathEndpoints, len(out.Ports)*len(out.Endpoints), maxSliceElements))
	if f.invalid {
		return nil, f.list()
	}
	return out, f.list()
}

// controllerSuffix ends the names of the controllers of Kubernetes that manage slices:
// endpointslice-controller.k8s.io and endpointslicemirroring-controller.k8s.io. The API
// server does not label the slices that it writes for its own Service.
const controllerSuffix = "-controller.k8s.io"

// maxSliceElements limits the endpoints of a slice times its ports. The API allows 1,000 endpoints
// and 20,000 ports: 20 million elements in an object of half a megabyte.
const maxSliceElements = 100_000

func (f *findings) addressFamily(t discoveryv1.AddressType) model.Family {
	switch t {
	case discoveryv1.AddressTypeIPv4:
		return model.IPv4
	case discoveryv1.AddressTypeIPv6:
		return model.IPv6
	case discoveryv1.AddressTypeFQDN:
		f.invalidate(field.Invalid(field.NewPath("addressType"), t, "no proxy serves domain names"))
		return model.IPv4
	}
	f.invalidate(field.NotSupported(field.NewPath("addressType"), t, []discoveryv1.AddressType{
		discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6,
	}))
	return model.IPv4
}

// slicePorts returns the ports of the slice, which each of its endpoints has.
func (f *findings) slicePorts(ports []discoveryv1.EndpointPort) []model.EndpointPort {
	var out []model.EndpointPort
	names := make(map[string]struct{}, len(ports))
	for i := range ports {
		path := pathSlicePorts.Index(i)
		port, ok := f.slicePort(path, &ports[i])
		if !ok {
			continue
		}
		if _, taken := names[port.Name]; taken {
			f.skip(field.Duplicate(path.Child("name"), port.Name))
			continue
		}
		names[port.Name] = struct{}{}
		out = append(out, port)
	}
	if len(ports) > 0 && len(out) == 0 {
		f.invalidate(field.Required(pathSlicePorts, "no usable port"))
	}
	return out
}

// slicePort converts one port, and reports whether it is valid.
func (f *findings) slicePort(path *field.Path, p *discoveryv1.EndpointPort) (model.EndpointPort, bool) {
	var nameErr, numberErr *field.Error
	name := ptr.Deref(p.Name, "")
	if name != "" {
		nameErr = invalidName(path.Child("name"), name, validation.IsDNS1123Label)
	}
	protocol, protocolErr := protocolOf(path, ptr.Deref(p.Protocol, ""))
	var number uint16
	if p.Port == nil {
		// In the API this means all ports, which no proxy can serve.
		numberErr = field.Required(path.Child("port"), "a port without a number cannot be served")
	} else {
		number, numberErr = portNumber(path, "port", *p.Port)
	}
	bad := f.skip(nameErr, protocolErr, numberErr)
	return model.EndpointPort{Name: name, Protocol: protocol, Port: number}, !bad
}

// endpoints converts endpoints, and skips those with a bad address. A slice may have a
// thousand, so field paths are built for errors only.
func (f *findings) endpoints(endpoints []discoveryv1.Endpoint, family model.Family) []model.Endpoint {
	if len(endpoints) == 0 {
		return nil
	}
	out := make([]model.Endpoint, 0, len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		addr, err := endpointAddr(e, family)
		if err != nil {
			f.skip(inEndpoint(i, err))
			continue
		}
		node := ptr.Deref(e.NodeName, "")
		if node != "" && !isPlainName(node) { // then it counts as unknown
			if f.skip(inEndpoint(i, invalidName(field.NewPath("nodeName"), node, validation.IsDNS1123Subdomain))) {
				node = ""
			}
		}
		zoneHints, nodeHints := f.hints(i, e.Hints)
		out = append(out, model.Endpoint{
			Addr:        addr,
			Ready:       ptr.Deref(e.Conditions.Ready, true),
			Serving:     ptr.Deref(e.Conditions.Serving, true),
			Terminating: ptr.Deref(e.Conditions.Terminating, false),
			Node:        node,
			ZoneHints:   zoneHints,
			NodeHints:   nodeHints,
		})
	}
	if len(out) == 0 {
		f.invalidate(field.Required(pathEndpoints, "no usable endpoint"))
	}
	return out
}

// inEndpoint prefixes the path of an error with its endpoint's path.
func inEndpoint(i int, err *field.Error) *field.Error {
	if err != nil {
		err.Field = pathEndpoints.Index(i).String() + "." + err.Field
	}
	return err
}

// endpointAddr returns the endpoint's first address. The API gives no meaning to others.
func endpointAddr(e *discoveryv1.Endpoint, family model.Family) (netip.Addr, *field.Error) {
	if len(e.Addresses) == 0 {
		return netip.Addr{}, field.Required(field.NewPath("addresses"), "an endpoint needs an address")
	}
	addr, err := parseHostIP(nil, e.Addresses[0])
	if err == nil && model.FamilyOf(addr) != family {
		err = field.Invalid(nil, e.Addresses[0], fmt.Sprintf("must be an %s address", family))
	}
	if err != nil {
		err.Field = "addresses[0]"
	}
	return addr, err
}

// hintsField returns the field of a Service, if any, that makes the EndpointSlice controller set
// hints, with its value. The annotation comes first there (topologycache in k8s.io/endpointslice).
// Only values that the API knows are kept, which takes no memory.
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

// topologyFields are the annotations that request hints by zone, as fields.
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

// nameSet returns the set of the names of endpoint i's hints in which problems finds none.
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
