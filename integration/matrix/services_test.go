package matrix

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// service is a Service with its endpoints in a few words. Unless it says
// otherwise, it can be reached in every way that there is: it is of type
// LoadBalancer, with the port 80 of every protocol served on 8080, and has the
// n-th address of each range and one NodePort for all three protocols.
type service struct {
	n    int
	name string // "service-<n>" if empty
	// externalLocal is externalTrafficPolicy: Local, internalLocal the same of
	// internalTrafficPolicy.
	externalLocal, internalLocal bool
	ports                        []servicePort
	// endpoints are the hosts that serve, as "pod-1 pod-2/unready": each with
	// its conditions behind it, see endpoint.
	endpoints string
	edit      func(*corev1.Service) // of what the words do not say
}

// servicePort is a port of a Service. Its own endpoints, if given, are used in
// place of the Service's.
type servicePort struct {
	name                   string
	protocol               model.Protocol
	port, target, nodePort int
	endpoints              string
}

// everyProtocol is a port of every protocol. Their names begin with name.
func everyProtocol(name string, port, target, nodePort int) []servicePort {
	var ports []servicePort
	for _, p := range model.Protocols {
		ports = append(ports, servicePort{name: name + p.String(), protocol: p, port: port, target: target, nodePort: nodePort})
	}
	return ports
}

// completed is the service with its name and ports.
func (s service) completed() service {
	if s.name == "" {
		s.name = fmt.Sprintf("service-%d", s.n)
	}
	if s.ports == nil {
		s.ports = everyProtocol("", port, targetPort, nodePorts+s.n)
	}
	return s
}

// objects are the Service and its EndpointSlices.
func (s service) objects(hosts map[string]*lab.Host) []any {
	s = s.completed()
	objects := []any{s.object()}
	for _, f := range model.Families {
		var common []servicePort
		for _, p := range s.ports {
			if p.endpoints == "" {
				common = append(common, p)
				continue
			}
			objects = append(objects, s.slice(hosts, f, "-"+p.name, []servicePort{p}, p.endpoints))
		}
		if len(common) > 0 {
			objects = append(objects, s.slice(hosts, f, "", common, s.endpoints))
		}
	}
	return objects
}

func (s service) object() *corev1.Service {
	out := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.name},
		Spec: corev1.ServiceSpec{
			Type:                  corev1.ServiceTypeLoadBalancer,
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster,
		},
	}
	if s.externalLocal {
		out.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if s.internalLocal {
		out.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	}
	for _, f := range model.Families {
		out.Spec.ClusterIPs = append(out.Spec.ClusterIPs, clusterIP.at(f, s.n).Addr().String())
		out.Spec.IPFamilies = append(out.Spec.IPFamilies, corev1.IPFamily(f.String()))
		out.Spec.ExternalIPs = append(out.Spec.ExternalIPs, externalIP.at(f, s.n).Addr().String())
		out.Status.LoadBalancer.Ingress = append(out.Status.LoadBalancer.Ingress,
			corev1.LoadBalancerIngress{IP: vip.at(f, s.n).Addr().String()})
	}
	out.Spec.ClusterIP = out.Spec.ClusterIPs[0]
	for _, p := range s.ports {
		out.Spec.Ports = append(out.Spec.Ports, corev1.ServicePort{
			Name: p.name, Protocol: apiProtocol(p.protocol), Port: int32(p.port), NodePort: int32(p.nodePort),
		})
	}
	if s.edit != nil {
		s.edit(out)
	}
	return out
}

// slice is the EndpointSlice of some of the Service's ports.
func (s service) slice(hosts map[string]*lab.Host, f model.Family, suffix string, ports []servicePort, endpoints string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default",
			Name:      fmt.Sprintf("%s%s-%s", s.name, suffix, strings.ToLower(f.String())),
			Labels:    map[string]string{discoveryv1.LabelServiceName: s.name},
		},
		AddressType: discoveryv1.AddressType(f.String()),
		Endpoints:   []discoveryv1.Endpoint{},
	}
	for _, p := range ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: ptr.To(p.name), Protocol: ptr.To(apiProtocol(p.protocol)), Port: ptr.To(int32(p.target)),
		})
	}
	for word := range strings.FieldsSeq(endpoints) {
		slice.Endpoints = append(slice.Endpoints, endpoint(hosts, f, word))
	}
	return slice
}

// endpoint reads a word such as "pod-1" or "pod-1/terminating". Behind the host
// may stand
//
//	unready      neither ready nor serving
//	terminating  on its way out, and still serving
//	terminated   on its way out, and not serving
func endpoint(hosts map[string]*lab.Host, f model.Family, word string) discoveryv1.Endpoint {
	name, condition, _ := strings.Cut(word, "/")
	node := "node-1"
	if strings.HasPrefix(name, "remote") {
		node = "node-2"
	}
	e := discoveryv1.Endpoint{Addresses: []string{hosts[name].Addr(f).String()}, NodeName: &node}
	switch condition {
	case "":
		e.Conditions = conditions(true, true, false)
	case "unready":
		e.Conditions = conditions(false, false, false)
	case "terminating":
		e.Conditions = conditions(false, true, true)
	case "terminated":
		e.Conditions = conditions(false, false, true)
	default:
		panic("matrix: endpoint " + strconv.Quote(word) + " has no condition")
	}
	return e
}

func conditions(ready, serving, terminating bool) discoveryv1.EndpointConditions {
	return discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
}

func apiProtocol(p model.Protocol) corev1.Protocol {
	return corev1.Protocol(strings.ToUpper(p.String()))
}

// serviceCIDR are the ranges of ClusterIPs.
func serviceCIDR() *networkingv1.ServiceCIDR {
	cidr := &networkingv1.ServiceCIDR{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR"},
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
	}
	for _, f := range model.Families {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, lab.ServiceRanges[f].String())
	}
	return cidr
}

// nodeObject is the Node of node-1.
func nodeObject() *corev1.Node {
	n := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
	}
	for _, f := range model.Families {
		n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, lab.PodRanges[f].String())
		n.Status.Addresses = append(n.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: nodeAddr(f).String()})
	}
	n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	return n
}
