package convert

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// servicePorts are the ports of a Service; one that is bad, or takes what an
// earlier one has, is left out.
func (f *findings) servicePorts(spec *corev1.ServiceSpec) []model.ServicePort {
	path := field.NewPath("spec", "ports")
	taken := takenPorts{}
	var out []model.ServicePort
	for i := range spec.Ports {
		port, ok := f.servicePort(path.Index(i), &spec.Ports[i], spec)
		if !ok || f.leaveOut(taken.take(path.Index(i), port)) {
			continue
		}
		out = append(out, port)
	}
	if len(out) == 0 {
		f.refuse(field.Required(path, "a Service needs a port that can be used"))
	}
	return out
}

// servicePort converts one port; false if it is to be left out.
func (f *findings) servicePort(path *field.Path, p *corev1.ServicePort, spec *corev1.ServiceSpec) (model.ServicePort, bool) {
	var nameErr, protocolErr, nodePortErr *field.Error
	switch {
	case p.Name != "":
		nameErr = invalidName(path.Child("name"), p.Name, validation.IsDNS1123Label)
	case len(spec.Ports) > 1:
		nameErr = field.Required(path.Child("name"), "a Service of several ports must name them")
	}
	protocol, ok := protocolOf(p.Protocol)
	if !ok {
		protocolErr = unsupportedProtocol(path.Child("protocol"), p.Protocol)
	}
	number, numberErr := portNumber(path.Child("port"), p.Port)
	var nodePort uint16
	switch {
	case p.NodePort == 0:
	case hasNodePorts(spec):
		nodePort, nodePortErr = portNumber(path.Child("nodePort"), p.NodePort)
	default:
		// Left over from another type: said, but no reason to do without the port.
		f.leaveOut(field.Forbidden(path.Child("nodePort"), "may not be used when type is ClusterIP"))
	}
	bad := f.leaveOut(nameErr, protocolErr, numberErr, nodePortErr)
	return model.ServicePort{Name: p.Name, Protocol: protocol, Port: number, NodePort: nodePort}, !bad
}

// hasNodePorts reports whether the Service's type comes with node ports.
func hasNodePorts(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer
}

// takenPorts holds what the ports of a Service may have only once: the name,
// the protocol and port, the protocol and node port. Each key has only these
// set.
type takenPorts map[model.ServicePort]struct{}

// take notes the port, or says what of it is taken.
func (t takenPorts) take(path *field.Path, p model.ServicePort) *field.Error {
	name := model.ServicePort{Name: p.Name}
	port := model.ServicePort{Protocol: p.Protocol, Port: p.Port}
	nodePort := model.ServicePort{Protocol: p.Protocol, NodePort: p.NodePort}
	switch {
	case t.has(name):
		return field.Duplicate(path.Child("name"), p.Name)
	case t.has(port):
		return field.Duplicate(path.Child("port"), p.Port)
	case p.NodePort != 0 && t.has(nodePort):
		return field.Duplicate(path.Child("nodePort"), p.NodePort)
	}
	t[name], t[port], t[nodePort] = struct{}{}, struct{}{}, struct{}{}
	return nil
}

func (t takenPorts) has(key model.ServicePort) bool {
	_, ok := t[key]
	return ok
}
