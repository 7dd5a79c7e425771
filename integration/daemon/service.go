package daemon

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	// Port is the first port of a Service.
	Port = 80
	// TargetPort is what endpoints serve there. The next port is served by the next
	// target.
	TargetPort = 8080
)

// Service is a Service of both families, each port over every protocol, with its
// endpoints.
type Service struct {
	Name   string
	Number int // chooses its addresses and node ports: one Service, one number
	// Kinds are what it has beside the ClusterIP.
	Kinds []model.Kind
	Ports int // how many it has from [Port] on; 0 is 1
	// Endpoints are the hosts that serve. Each is Times endpoints, at as many ports
	// from [TargetPort] on; 0 is 1.
	Endpoints []*lab.Host
	Times     int
	// Affinity is how long a client keeps its endpoint; 0 is no affinity.
	Affinity  time.Duration
	Scheduler string // the annotation; none if empty
	// LocalInside and LocalOutside are the traffic policies Local.
	LocalInside, LocalOutside bool
	Sources                   []string // load balancer source ranges
	// Zone is the only zone that its endpoints are meant for; empty if there is none.
	Zone string
}

// Has reports whether the Service has frontends of the kind.
func (s Service) Has(k model.Kind) bool {
	for _, have := range s.Kinds {
		if have == k {
			return true
		}
	}
	return k == model.KindClusterIP
}

// numbers are the Service's ports, counted from 0.
func (s Service) numbers() int32 { return int32(max(s.Ports, 1)) }

// objects are the Service and its EndpointSlices.
func (s Service) objects() []any {
	objects := []any{s.object()}
	for _, f := range model.Families {
		for n := range max(s.Times, 1) {
			objects = append(objects, s.slice(f, int32(n)))
		}
	}
	return objects
}

func (s Service) object() *corev1.Service {
	out := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.Name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, LoadBalancerSourceRanges: s.Sources},
	}
	if s.Scheduler != "" {
		out.Annotations = map[string]string{"kube-vmap.io/scheduler": s.Scheduler}
	}
	s.addresses(out)
	s.policies(&out.Spec)
	s.ports(&out.Spec)
	return out
}

// addresses gives the object its type and the addresses that go with it.
func (s Service) addresses(out *corev1.Service) {
	if s.Has(model.KindNodePort) {
		out.Spec.Type = corev1.ServiceTypeNodePort
	}
	if s.Has(model.KindLoadBalancerIP) {
		out.Spec.Type = corev1.ServiceTypeLoadBalancer
		out.Spec.AllocateLoadBalancerNodePorts = ptr.To(s.Has(model.KindNodePort))
	}
	for _, f := range model.Families {
		out.Spec.ClusterIPs = append(out.Spec.ClusterIPs, s.Addr(f, model.KindClusterIP).String())
		out.Spec.IPFamilies = append(out.Spec.IPFamilies, corev1.IPFamily(f.String()))
		if s.Has(model.KindExternalIP) {
			out.Spec.ExternalIPs = append(out.Spec.ExternalIPs, s.Addr(f, model.KindExternalIP).String())
		}
		if s.Has(model.KindLoadBalancerIP) {
			out.Status.LoadBalancer.Ingress = append(out.Status.LoadBalancer.Ingress,
				corev1.LoadBalancerIngress{IP: s.Addr(f, model.KindLoadBalancerIP).String()})
		}
	}
	out.Spec.ClusterIP = out.Spec.ClusterIPs[0]
}

func (s Service) policies(spec *corev1.ServiceSpec) {
	if s.LocalInside {
		spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if s.LocalOutside {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if s.Affinity > 0 {
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(int32(s.Affinity / time.Second))},
		}
	}
}

func (s Service) ports(spec *corev1.ServiceSpec) {
	for n := range s.numbers() {
		for _, p := range model.Protocols {
			port := corev1.ServicePort{Name: portName(p, n), Protocol: protocol(p), Port: Port + n}
			if s.Has(model.KindNodePort) {
				port.NodePort = s.nodePort(n)
			}
			spec.Ports = append(spec.Ports, port)
		}
	}
}

// slice is the EndpointSlice with the endpoints' n-th ports.
func (s Service) slice(f model.Family, n int32) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default",
			Name:      fmt.Sprintf("%s-%s-%d", s.Name, strings.ToLower(f.String()), n),
			Labels:    map[string]string{discoveryv1.LabelServiceName: s.Name},
		},
		AddressType: discoveryv1.AddressType(f.String()),
		Endpoints:   []discoveryv1.Endpoint{},
	}
	for number := range s.numbers() {
		for _, p := range model.Protocols {
			out.Ports = append(out.Ports, discoveryv1.EndpointPort{
				Name: ptr.To(portName(p, number)), Protocol: ptr.To(protocol(p)), Port: ptr.To(TargetPort + number + n),
			})
		}
	}
	for _, h := range s.Endpoints {
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{h.Addr(f).String()}, NodeName: ptr.To(nodeOf(h, f)), Hints: s.hints(),
		})
	}
	return out
}

// hints say which zone an endpoint is meant for.
func (s Service) hints() *discoveryv1.EndpointHints {
	if s.Zone == "" {
		return nil
	}
	return &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: s.Zone}}}
}

// nodeOf is the name of the node that a pod runs on.
func nodeOf(h *lab.Host, f model.Family) string {
	if lab.RemotePodRanges[f].Contains(h.Addr(f)) {
		return "node-2"
	}
	return "node-1"
}

func portName(p model.Protocol, n int32) string { return fmt.Sprintf("%s-%d", p, n) }

func protocol(p model.Protocol) corev1.Protocol { return corev1.Protocol(strings.ToUpper(p.String())) }

// nth is the n-th address of a range, n being below 2^16.
func nth(p netip.Prefix, n int) netip.Addr {
	b := p.Addr().AsSlice()
	b[len(b)-2], b[len(b)-1] = b[len(b)-2]+byte(n>>8), b[len(b)-1]+byte(n)
	a, _ := netip.AddrFromSlice(b) // of the length it came from
	return a
}
