package convert

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/model"
)

// everything returns a Service with every field that some type of Service can have.
func everything(change func(*corev1.Service)) *corev1.Service {
	s := service(func(s *corev1.Service) {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.Ports = []corev1.ServicePort{
			{Name: "http", Port: 80, NodePort: 30080},
			{Name: "dns", Port: 53, NodePort: 30053, Protocol: corev1.ProtocolUDP},
			{Name: "sig", Port: 53, NodePort: 30053, Protocol: corev1.ProtocolSCTP},
		}
		s.Spec.ExternalIPs = []string{"198.51.100.1", "2001:db8::1"}
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		s.Spec.HealthCheckNodePort = 32000
		s.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24", "2001:db8:1::/48"}
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
			{IP: "198.51.100.2", IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}, {IP: "2001:db8::2"},
		}
	})
	change(s)
	return s
}

// wantEverything returns the result of converting it.
func wantEverything(change func(*model.Service)) *model.Service {
	return wantService(func(s *model.Service) {
		s.Ports = []model.ServicePort{
			{Name: "http", Protocol: model.TCP, Port: 80, NodePort: 30080},
			{Name: "dns", Protocol: model.UDP, Port: 53, NodePort: 30053},
			{Name: "sig", Protocol: model.SCTP, Port: 53, NodePort: 30053},
		}
		s.ExternalIPs = addrs("198.51.100.1", "2001:db8::1")
		s.ExternalPolicy, s.InternalPolicy = model.PolicyLocal, model.PolicyLocal
		s.HealthCheckNodePort = 32000
		s.LoadBalancerIPs = addrs("198.51.100.2", "2001:db8::2")
		s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:1::/48")}
		s.Affinity = 3 * time.Hour
		change(s)
	})
}

// TestServiceFieldsAreThoseOfKubeProxy tests each field that kube-proxy reads
// (pkg/proxy/serviceport.go, servicechangetracker.go), and related fields that it
// ignores.
func TestServiceFieldsAreThoseOfKubeProxy(t *testing.T) {
	ingress := func(i ...corev1.LoadBalancerIngress) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = i }
	}
	noNodePorts := func(s *model.Service) {
		for i := range s.Ports {
			s.Ports[i].NodePort = 0
		}
	}
	checkServices(t, map[string]serviceTest{
		"all fields": {func(*corev1.Service) {}, same, nil},

		"type LoadBalancer without node ports (allocateLoadBalancerNodePorts)": {
			func(s *corev1.Service) {
				s.Spec.AllocateLoadBalancerNodePorts = ptr.To(false)
				for i := range s.Spec.Ports {
					s.Spec.Ports[i].NodePort = 0
				}
			},
			noNodePorts, nil,
		},
		"type LoadBalancer without an address": {ingress(), func(s *model.Service) { s.LoadBalancerIPs = nil }, nil},
		"type NodePort with a load balancer status: no health check": {
			func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
			func(s *model.Service) { s.HealthCheckNodePort = 0 }, nil,
		},
		"type NodePort": {
			func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeNodePort
				ingress()(s)
			},
			func(s *model.Service) { s.HealthCheckNodePort, s.LoadBalancerIPs = 0, nil }, nil,
		},
		"type ClusterIP with external IPs": {
			func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeClusterIP
				for i := range s.Spec.Ports {
					s.Spec.Ports[i].NodePort = 0
				}
			},
			func(s *model.Service) {
				noNodePorts(s)
				s.HealthCheckNodePort = 0
			}, nil,
		},
		"no type means ClusterIP": {
			func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalIPs = "", nil
				for i := range s.Spec.Ports {
					s.Spec.Ports[i].NodePort = 0
				}
			},
			func(s *model.Service) {
				noNodePorts(s)
				s.ExternalIPs, s.HealthCheckNodePort, s.ExternalPolicy = nil, 0, model.PolicyCluster
			}, nil,
		},
		"type ClusterIP with node ports": {
			func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP },
			func(s *model.Service) {
				noNodePorts(s)
				s.HealthCheckNodePort = 0
			},
			[]string{"spec.ports[0].nodePort: Forbidden", "spec.ports[1].nodePort: Forbidden", "spec.ports[2].nodePort: Forbidden"},
		},
		"type ExternalName, even with a ClusterIP": {
			func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }, nil, nil,
		},
		"clusterIP None":  {func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }, nil, nil},
		"clusterIP empty": {func(s *corev1.Service) { s.Spec.ClusterIP = "" }, nil, nil},
		"empty label service-proxy-name": {
			func(s *corev1.Service) { s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": ""} }, nil, nil,
		},

		"ipFamilies reversed": {
			func(s *corev1.Service) {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
				s.Spec.ClusterIP, s.Spec.ClusterIPs = "fd00:10:96::a", []string{"fd00:10:96::a", "10.96.0.10"}
			},
			func(s *model.Service) { s.ClusterIPs = addrs("fd00:10:96::a", "10.96.0.10") }, nil,
		},
		"single stack: addresses of the other family are skipped": {
			func(s *corev1.Service) {
				s.Spec.IPFamilies, s.Spec.ClusterIPs = s.Spec.IPFamilies[:1], s.Spec.ClusterIPs[:1]
			},
			func(s *model.Service) {
				s.ClusterIPs, s.ExternalIPs, s.LoadBalancerIPs = s.ClusterIPs[:1], s.ExternalIPs[:1], s.LoadBalancerIPs[:1]
			},
			[]string{"spec.externalIPs[1]: Invalid value", "status.loadBalancer.ingress[1].ip: Invalid value"},
		},
		"externalIPs with leading zeros": {
			func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"198.051.100.001", "none", "2001:DB8:0::1"} },
			same,
			[]string{"spec.externalIPs[1]: Invalid value"},
		},
		"ingress in the mode Proxy": {
			ingress(
				corev1.LoadBalancerIngress{IP: "198.51.100.2", IPMode: ptr.To(corev1.LoadBalancerIPModeProxy)},
				corev1.LoadBalancerIngress{IP: "2001:db8::2", IPMode: ptr.To(corev1.LoadBalancerIPModeProxy)},
			),
			func(s *model.Service) { s.LoadBalancerIPs = nil }, nil,
		},
		"ingress with hostname and ports, which are ignored": {
			ingress(
				corev1.LoadBalancerIngress{Hostname: "lb.example.com"},
				corev1.LoadBalancerIngress{IP: "198.51.100.2", Ports: []corev1.PortStatus{{Port: 81}}},
				corev1.LoadBalancerIngress{IP: "2001:db8::2", Hostname: "lb.example.com"},
			),
			same, nil,
		},
		"loadBalancerSourceRanges, not the annotation": {
			func(s *corev1.Service) {
				s.Spec.LoadBalancerSourceRanges = []string{" 203.0.113.7/24\n", "2001:db8:1:0::9/48"}
				s.Annotations = map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: "192.0.2.0/24"}
			},
			same, nil,
		},
		"externalTrafficPolicy Cluster needs no health checks": {
			func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster },
			func(s *model.Service) { s.ExternalPolicy, s.HealthCheckNodePort = model.PolicyCluster, 0 }, nil,
		},
		"healthCheckNodePort 0": {
			func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 0 },
			func(s *model.Service) { s.HealthCheckNodePort = 0 }, nil,
		},
		"no internalTrafficPolicy": {
			func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = nil },
			func(s *model.Service) { s.InternalPolicy = model.PolicyCluster }, nil,
		},
		"sessionAffinity None ignores the timeout": {
			func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityNone
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(int32(0))}}
			},
			func(s *model.Service) { s.Affinity = 0 }, nil,
		},
		"affinity timeout of a second": {
			func(s *corev1.Service) {
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(int32(1))}}
			},
			func(s *model.Service) { s.Affinity = time.Second }, nil,
		},
		"fields of other programs": {
			func(s *corev1.Service) {
				s.Spec.PublishNotReadyAddresses = true
				s.Spec.LoadBalancerClass = ptr.To("example.com/lb")
				s.Spec.LoadBalancerIP = "198.51.100.99"
				s.Spec.Ports[0].AppProtocol = ptr.To("h2c")
			},
			same, nil,
		},
	}, everything, wantEverything)
}
