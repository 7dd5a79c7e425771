package convert

import (
	"fmt"
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"kube-vmap/model"
)

// LabelHeadless marks the EndpointSlices of headless Services, whatever its
// value.
const LabelHeadless = "service.kubernetes.io/headless"

// Slice reduces an EndpointSlice to what the proxy reads of it, with
// results as [Service] has them. Slices of headless Services, of no
// Service, and of domain names are none of the proxy's business.
func Slice(s *discoveryv1.EndpointSlice) (*model.EndpointSlice, field.ErrorList) {
	service := s.Labels[discoveryv1.LabelServiceName]
	_, headless := s.Labels[LabelHeadless]
	if headless || service == "" || s.AddressType == discoveryv1.AddressTypeFQDN {
		return nil, nil
	}
	var f findings
	f.checkNames(&s.ObjectMeta, validation.IsDNS1123Subdomain)
	f.refuse(invalidName(field.NewPath("metadata", "labels").Key(discoveryv1.LabelServiceName),
		service, validation.IsDNS1123Label))
	family := f.addressFamily(s.AddressType)
	if f.refused {
		// Of unknown family, each endpoint would only be one more complaint.
		return nil, f.all()
	}
	out := &model.EndpointSlice{
		Name:      model.EndpointSliceName{Namespace: s.Namespace, Name: s.Name},
		Service:   model.ServiceName{Namespace: s.Namespace, Name: service},
		Family:    family,
		Ports:     f.slicePorts(s.Ports),
		Endpoints: f.endpoints(s.Endpoints, family),
	}
	f.refuse(tooMany(field.NewPath("endpoints"), len(out.Ports)*len(out.Endpoints), maxOffers))
	if f.refused {
		return nil, f.all()
	}
	return out, f.all()
}

// maxOffers is how many endpoints, each with each port, one slice may have. The API
// allows 1,000 endpoints and 20,000 ports, twenty millions of elements in an object
// of half a megabyte.
const maxOffers = 100_000

func (f *findings) addressFamily(t discoveryv1.AddressType) model.Family {
	switch t {
	case discoveryv1.AddressTypeIPv4:
		return model.IPv4
	case discoveryv1.AddressTypeIPv6:
		return model.IPv6
	}
	f.refuse(field.NotSupported(field.NewPath("addressType"), t, []discoveryv1.AddressType{
		discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6,
	}))
	return model.IPv4
}

// slicePorts are the ports that every endpoint of the slice offers.
func (f *findings) slicePorts(ports []discoveryv1.EndpointPort) []model.EndpointPort {
	path := field.NewPath("ports")
	var out []model.EndpointPort
	names := map[string]struct{}{}
	for i := range ports {
		port, ok := f.slicePort(path.Index(i), &ports[i])
		if !ok {
			continue
		}
		if _, taken := names[port.Name]; taken {
			f.leaveOut(field.Duplicate(path.Index(i).Child("name"), port.Name))
			continue
		}
		names[port.Name] = struct{}{}
		out = append(out, port)
	}
	if len(ports) > 0 && len(out) == 0 {
		f.refuse(field.Required(path, "none of the ports can be used"))
	}
	return out
}

// slicePort converts one port; false if it is to be left out.
func (f *findings) slicePort(path *field.Path, p *discoveryv1.EndpointPort) (model.EndpointPort, bool) {
	var nameErr, protocolErr, numberErr *field.Error
	name := ptr.Deref(p.Name, "")
	if name != "" {
		nameErr = invalidName(path.Child("name"), name, validation.IsDNS1123Label)
	}
	protocol, ok := protocolOf(ptr.Deref(p.Protocol, ""))
	if !ok {
		protocolErr = unsupportedProtocol(path.Child("protocol"), *p.Protocol)
	}
	var number uint16
	if p.Port == nil {
		// For the API this is every port, which no proxy can serve.
		numberErr = field.Required(path.Child("port"), "a port without a number cannot be served")
	} else {
		number, numberErr = portNumber(path.Child("port"), *p.Port)
	}
	bad := f.leaveOut(nameErr, protocolErr, numberErr)
	return model.EndpointPort{Name: name, Protocol: protocol, Port: number}, !bad
}

// endpoints converts endpoints and leaves out those whose address is bad. A
// slice may have a thousand, so that paths are made for errors only.
func (f *findings) endpoints(endpoints []discoveryv1.Endpoint, family model.Family) []model.Endpoint {
	if len(endpoints) == 0 {
		return nil
	}
	out := make([]model.Endpoint, 0, len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		addr, err := endpointAddr(e, family)
		if err != nil {
			f.leaveOut(inEndpoint(i, err))
			continue
		}
		node, err := endpointNode(e)
		f.leaveOut(inEndpoint(i, err))
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
		f.refuse(field.Required(field.NewPath("endpoints"), "none of the endpoints can be used"))
	}
	return out
}

// inEndpoint puts the path of an endpoint before an error's own.
func inEndpoint(i int, err *field.Error) *field.Error {
	if err != nil {
		err.Field = field.NewPath("endpoints").Index(i).String() + "." + err.Field
	}
	return err
}

// endpointAddr is the endpoint's first address; the API gives no meaning to
// others.
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

// endpointNode is the node the endpoint runs on; one that cannot exist counts
// as not known.
func endpointNode(e *discoveryv1.Endpoint) (string, *field.Error) {
	name := ptr.Deref(e.NodeName, "")
	if name == "" || isPlainName(name) {
		return name, nil
	}
	return "", invalidName(field.NewPath("nodeName"), name, validation.IsDNS1123Subdomain)
}
