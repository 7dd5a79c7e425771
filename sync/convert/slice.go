package convert

import (
	"fmt"
	"net/netip"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"kube-vmap/model"
)

// LabelHeadless is the label of EndpointSlices of headless Services, whatever its value.
const LabelHeadless = "service.kubernetes.io/headless"

// Slice reduces an EndpointSlice to the fields that the proxy reads, with the same kinds of results
// as [Service]. It does not serve slices of headless Services, of no Service, and of domain names.
func Slice(s *discoveryv1.EndpointSlice) (*model.EndpointSlice, field.ErrorList) {
	service := s.Labels[discoveryv1.LabelServiceName]
	_, headless := s.Labels[LabelHeadless]
	if headless || service == "" || s.AddressType == discoveryv1.AddressTypeFQDN {
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

// endpoints converts endpoints, and skips those whose address is bad. A slice may have
// a thousand, so that field paths are built for errors only.
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
		node, err := endpointNode(e)
		f.skip(inEndpoint(i, err))
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

// inEndpoint prefixes the path of an error with that of its endpoint.
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

// endpointNode returns the node on which the endpoint runs. An invalid name counts as unknown.
func endpointNode(e *discoveryv1.Endpoint) (string, *field.Error) {
	name := ptr.Deref(e.NodeName, "")
	if name == "" || isPlainName(name) {
		return name, nil
	}
	return "", invalidName(field.NewPath("nodeName"), name, validation.IsDNS1123Subdomain)
}
