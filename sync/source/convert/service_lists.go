package convert

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// clusterIPs returns the ClusterIPs: at most one of each family, in the order of spec.ipFamilies.
// Because they identify the Service to its clients, a bad one invalidates the Service.
func (f *findings) clusterIPs(spec *corev1.ServiceSpec) []netip.Addr {
	if len(spec.ClusterIPs) == 0 {
		addr, err := parseVirtualIP(pathClusterIP, spec.ClusterIP)
		f.invalidate(err)
		return []netip.Addr{addr}
	}
	if spec.ClusterIPs[0] != spec.ClusterIP {
		f.invalidate(field.Invalid(pathClusterIPs.Index(0), spec.ClusterIPs[0], "must equal spec.clusterIP"))
	}
	if n := len(spec.ClusterIPs); n > len(model.Families) {
		f.invalidate(field.TooMany(pathClusterIPs, n, len(model.Families)))
		return nil
	}
	var out []netip.Addr
	for i, value := range spec.ClusterIPs {
		path := pathClusterIPs.Index(i)
		addr, err := parseVirtualIP(path, value)
		switch {
		case err != nil:
		case hasFamilyOf(out, addr):
			err = field.Invalid(path, value, "must be of the other family than the first")
		default:
			err = wrongFamily(path, addr, spec.IPFamilies, i)
		}
		f.invalidate(err)
		out = append(out, addr)
	}
	return out
}

// wrongFamily returns an error if spec.ipFamilies is given and has another family for
// the ClusterIP.
func wrongFamily(path *field.Path, addr netip.Addr, families []corev1.IPFamily, i int) *field.Error {
	switch {
	case len(families) == 0:
		return nil
	case i >= len(families):
		return field.Invalid(path, addr.String(), fmt.Sprintf("spec.ipFamilies has no entry %d", i))
	case string(families[i]) != model.FamilyOf(addr).String():
		return field.Invalid(path, addr.String(), fmt.Sprintf("spec.ipFamilies[%d] is %q", i, families[i]))
	}
	return nil
}

// externalIPs returns the addresses that are routed to nodes by other means.
func (f *findings) externalIPs(spec *corev1.ServiceSpec, clusterIPs []netip.Addr) []netip.Addr {
	path := pathExternalIPs
	if f.skip(tooMany(path, len(spec.ExternalIPs), maxExternalIPs)) {
		return nil
	}
	list := addrList{clusterIPs: clusterIPs}
	for i, value := range spec.ExternalIPs {
		addr, err := parseHostIP(path.Index(i), value)
		f.skip(list.add(path.Index(i), addr, err))
	}
	return list.addrs
}

// loadBalancer sets the source ranges and the addresses of the Service's load balancer. One bad
// range drops all addresses that have ranges: to ignore it could open them to everyone.
func (f *findings) loadBalancer(out *model.Service, s *corev1.Service) {
	out.RangesForAll = annotation(f, s.Annotations, annotationRanges, parseRanges)
	var ok, okDenied bool
	out.SourceRanges, ok = f.ranges(pathSourceRanges, s.Spec.LoadBalancerSourceRanges)
	denied := strings.FieldsFunc(s.Annotations[annotationDenied], func(r rune) bool { return r == ',' })
	out.DeniedRanges, okDenied = f.ranges(pathAnnotations.Key(annotationDenied), denied)
	if !ok || !okDenied {
		dropRestricted(out)
		return
	}
	out.LoadBalancerIPs = f.loadBalancerIPs(s, out.ClusterIPs)
}

// ranges returns source ranges, and whether all can be used.
func (f *findings) ranges(path *field.Path, values []string) (out []netip.Prefix, ok bool) {
	if f.skip(tooMany(path, len(values), maxSourceRanges)) {
		return nil, false
	}
	for i, value := range values {
		prefix, err := ParsePrefix(path.Index(i), value)
		if f.skip(err) {
			return nil, false
		}
		out = append(out, prefix)
	}
	return out, true
}

// dropRestricted removes the addresses and node ports that have source ranges.
func dropRestricted(s *model.Service) {
	s.SourceRanges, s.DeniedRanges, s.LoadBalancerIPs = nil, nil, nil
	if s.RangesForAll {
		s.ExternalIPs = nil
		for i := range s.Ports {
			s.Ports[i].NodePort = 0
		}
	}
}

// loadBalancerIPs returns the load balancer's addresses in the mode VIP, whose packets arrive with
// their destination unchanged. The mode Proxy must not be short-circuited (KEP-1860).
func (f *findings) loadBalancerIPs(s *corev1.Service, clusterIPs []netip.Addr) []netip.Addr {
	path := pathIngress
	if f.skip(tooMany(path, len(s.Status.LoadBalancer.Ingress), maxFrontends)) {
		return nil
	}
	list := addrList{clusterIPs: clusterIPs}
	for i, ingress := range s.Status.LoadBalancer.Ingress {
		if ingress.IP == "" {
			continue
		}
		if mode := ingress.IPMode; mode != nil && *mode != corev1.LoadBalancerIPModeVIP {
			if *mode != corev1.LoadBalancerIPModeProxy {
				f.skip(field.NotSupported(path.Index(i).Child("ipMode"), *mode,
					[]corev1.LoadBalancerIPMode{corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy}))
			}
			continue
		}
		addr, err := parseVirtualIP(path.Index(i).Child("ip"), ingress.IP)
		f.skip(list.add(path.Index(i).Child("ip"), addr, err))
	}
	return list.addrs
}

type addrList struct {
	clusterIPs []netip.Addr // of the Service
	addrs      []netip.Addr
	listed     map[netip.Addr]struct{}
}

// add adds an address, unless its parser returned an error, it is a duplicate, or the
// Service has no ClusterIP of its family.
func (l *addrList) add(path *field.Path, addr netip.Addr, err *field.Error) *field.Error {
	if err != nil {
		return err
	}
	if _, twice := l.listed[addr]; twice {
		return field.Duplicate(path, addr.String())
	}
	if !hasFamilyOf(l.clusterIPs, addr) {
		return field.Invalid(path, addr.String(),
			fmt.Sprintf("the Service has no ClusterIP of family %s", model.FamilyOf(addr)))
	}
	if l.listed == nil {
		l.listed = map[netip.Addr]struct{}{}
	}
	l.listed[addr] = struct{}{}
	l.addrs = append(l.addrs, addr)
	return nil
}

// servicePorts returns the ports of a Service without those that are invalid or
// duplicate an earlier one.
func (f *findings) servicePorts(spec *corev1.ServiceSpec) []model.ServicePort {
	var used usedPorts
	if len(spec.Ports) > 1 {
		used = usedPorts{}
	}
	var out []model.ServicePort
	for i := range spec.Ports {
		path := pathServicePorts.Index(i)
		port, ok := f.servicePort(path, &spec.Ports[i], spec)
		if !ok || f.skip(used.add(path, port)) {
			continue
		}
		out = append(out, port)
	}
	if len(out) == 0 {
		f.invalidate(field.Required(pathServicePorts, "a Service needs a usable port"))
	}
	return out
}

// servicePort converts one port, and reports whether it is valid.
func (f *findings) servicePort(
	path *field.Path, p *corev1.ServicePort, spec *corev1.ServiceSpec,
) (port model.ServicePort, ok bool) {
	var nameErr, nodePortErr *field.Error
	switch {
	case p.Name != "":
		nameErr = invalidName(path.Child("name"), p.Name, validation.IsDNS1123Label)
	case len(spec.Ports) > 1:
		nameErr = field.Required(path.Child("name"), "a Service of several ports must name them")
	}
	protocol, protocolErr := protocolOf(path, p.Protocol)
	number, numberErr := portNumber(path, "port", p.Port)
	var nodePort uint16
	switch {
	case p.NodePort == 0:
	case hasNodePorts(spec):
		nodePort, nodePortErr = portNumber(path, "nodePort", p.NodePort)
	default:
		// A remnant of another type: reported, but the port is not skipped.
		f.skip(field.Forbidden(path.Child("nodePort"), "may not be used when type is ClusterIP"))
	}
	bad := f.skip(nameErr, protocolErr, numberErr, nodePortErr)
	return model.ServicePort{Name: p.Name, Protocol: protocol, Port: number, NodePort: nodePort}, !bad
}

func hasNodePorts(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer
}

// usedPorts holds the values that must be unique among the ports of a Service: the name,
// the protocol and port, the protocol and node port. Each key has only these fields set.
// It is nil for a single port.
type usedPorts map[model.ServicePort]struct{}

func (u usedPorts) add(path *field.Path, p model.ServicePort) *field.Error {
	if u == nil {
		return nil
	}
	name := model.ServicePort{Name: p.Name}
	port := model.ServicePort{Protocol: p.Protocol, Port: p.Port}
	nodePort := model.ServicePort{Protocol: p.Protocol, NodePort: p.NodePort}
	switch {
	case u.has(name):
		return field.Duplicate(path.Child("name"), p.Name)
	case u.has(port):
		return field.Duplicate(path.Child("port"), p.Port)
	case p.NodePort != 0 && u.has(nodePort):
		return field.Duplicate(path.Child("nodePort"), p.NodePort)
	}
	u[name], u[port], u[nodePort] = struct{}{}, struct{}{}, struct{}{}
	return nil
}

func (u usedPorts) has(key model.ServicePort) bool {
	_, ok := u[key]
	return ok
}
