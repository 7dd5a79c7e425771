package convert

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

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
		// A remnant of another type: reported, but no reason to skip the port.
		f.skip(field.Forbidden(path.Child("nodePort"), "may not be used when type is ClusterIP"))
	}
	bad := f.skip(nameErr, protocolErr, numberErr, nodePortErr)
	return model.ServicePort{Name: p.Name, Protocol: protocol, Port: number, NodePort: nodePort}, !bad
}

func hasNodePorts(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer
}

// usedPorts holds what must be unique among the ports of a Service: the name, the
// protocol and port, the protocol and node port. Each key has only these fields set. It
// is nil if there is one port only.
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
