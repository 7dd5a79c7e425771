package convert

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"
)

// NewScheme returns a scheme of the four kinds that the proxy reads, with the defaults that the API
// server sets in the fields that the proxy reads. Client libraries have the kinds but not the
// defaults; objects from manifests need them. The API reference documents them
// (https://kubernetes.io/docs/reference/kubernetes-api/service-resources/), and so do the comments
// of k8s.io/api.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.Node{})
	scheme.AddKnownTypes(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{})
	scheme.AddKnownTypes(networkingv1.SchemeGroupVersion, &networkingv1.ServiceCIDR{})
	scheme.AddTypeDefaultingFunc(&corev1.Service{}, func(o any) { defaultService(o.(*corev1.Service)) })
	scheme.AddTypeDefaultingFunc(&discoveryv1.EndpointSlice{},
		func(o any) { defaultSlice(o.(*discoveryv1.EndpointSlice)) })
	return scheme
}

func defaultService(s *corev1.Service) {
	setDefault(&s.Namespace, metav1.NamespaceDefault)
	spec := &s.Spec
	setDefault(&spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		setDefault(&spec.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	setDefault(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	if spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		defaultAffinityTimeout(spec)
	}
	if spec.Type != corev1.ServiceTypeExternalName && spec.InternalTrafficPolicy == nil {
		spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyCluster)
	}
	if hasNodePorts(spec) || len(spec.ExternalIPs) > 0 {
		setDefault(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	defaultClusterIPs(spec)
	defaultIPModes(&s.Status)
}

// defaultAffinityTimeout sets the timeout to three hours if there is none.
func defaultAffinityTimeout(spec *corev1.ServiceSpec) {
	if spec.SessionAffinityConfig == nil {
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{}
	}
	config := spec.SessionAffinityConfig
	if config.ClientIP == nil {
		config.ClientIP = &corev1.ClientIPConfig{}
	}
	if config.ClientIP.TimeoutSeconds == nil {
		config.ClientIP.TimeoutSeconds = ptr.To(corev1.DefaultClientIPServiceAffinitySeconds)
	}
}

// defaultClusterIPs completes clusterIP, clusterIPs and ipFamilies from one another.
func defaultClusterIPs(spec *corev1.ServiceSpec) {
	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		spec.ClusterIP = spec.ClusterIPs[0]
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if len(spec.IPFamilies) > 0 {
		return
	}
	for _, ip := range spec.ClusterIPs {
		switch {
		case netutils.IsIPv4String(ip):
			spec.IPFamilies = append(spec.IPFamilies, corev1.IPv4Protocol)
		case netutils.IsIPv6String(ip):
			spec.IPFamilies = append(spec.IPFamilies, corev1.IPv6Protocol)
		}
	}
}

// defaultIPModes sets the mode of load balancer addresses without one to VIP.
func defaultIPModes(status *corev1.ServiceStatus) {
	for i := range status.LoadBalancer.Ingress {
		ingress := &status.LoadBalancer.Ingress[i]
		if ingress.IP != "" && ingress.IPMode == nil {
			ingress.IPMode = ptr.To(corev1.LoadBalancerIPModeVIP)
		}
	}
}

func defaultSlice(s *discoveryv1.EndpointSlice) {
	setDefault(&s.Namespace, metav1.NamespaceDefault)
	for i := range s.Ports {
		if s.Ports[i].Name == nil {
			s.Ports[i].Name = ptr.To("")
		}
		if s.Ports[i].Protocol == nil {
			s.Ports[i].Protocol = ptr.To(corev1.ProtocolTCP)
		}
	}
}

func setDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}
