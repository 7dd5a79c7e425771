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
func everything() *corev1.Service {
	return service(func(s *corev1.Service) {
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
}

// wantEverything returns the result of converting it.
func wantEverything() *model.Service {
	s := wantService()
	s.Ports = []model.ServicePort{
		{Name: "http", Protocol: model.TCP, Port: 80, NodePort: 30080},
		{Name: "dns", Protocol: model.UDP, Port: 53, NodePort: 30053},
		{Name: "sig", Protocol: model.SCTP, Port: 53, NodePort: 30053},
	}
	s.ExternalIPs = addrs("198.51.100.1 2001:db8::1")
	s.ExternalPolicy, s.InternalPolicy = model.PolicyLocal, model.PolicyLocal
	s.HealthCheckNodePort = 32000
	s.LoadBalancerIPs = addrs("198.51.100.2 2001:db8::2")
	s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:1::/48")}
	s.Affinity = 3 * time.Hour
	return s
}

// TestServiceFieldsAreThoseOfKubeProxy tests each field that kube-proxy reads
// (pkg/proxy/serviceport.go, servicechangetracker.go), and related fields that it
// ignores.
func TestServiceFieldsAreThoseOfKubeProxy(t *testing.T) {
	const withoutNodePorts = "ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}, " +
		"{name: sig, port: 53, protocol: SCTP}]"
	noNodePorts := func(s *model.Service) {
		for i := range s.Ports {
			s.Ports[i].NodePort = 0
		}
	}
	clusterIP := func(s *model.Service) {
		noNodePorts(s)
		s.HealthCheckNodePort = 0
	}
	noBalancer := func(s *model.Service) { s.LoadBalancerIPs = nil }
	noHealthCheck := func(s *model.Service) { s.HealthCheckNodePort = 0 }
	checkConversions(t, Service, everything(), wantEverything, map[string]conversionTest[model.Service]{
		"all fields": {"", same, ""},

		"type LoadBalancer without node ports (allocateLoadBalancerNodePorts)": {
			"spec: {allocateLoadBalancerNodePorts: false, " + withoutNodePorts + "}", noNodePorts, "",
		},
		"type LoadBalancer without an address":                       {"status: {loadBalancer: null}", noBalancer, ""},
		"type NodePort with a load balancer status: no health check": {"spec: {type: NodePort}", noHealthCheck, ""},
		"type NodePort": {
			"{spec: {type: NodePort}, status: {loadBalancer: null}}",
			func(s *model.Service) { s.HealthCheckNodePort, s.LoadBalancerIPs = 0, nil }, "",
		},
		"type ClusterIP with external IPs": {"spec: {type: ClusterIP, " + withoutNodePorts + "}", clusterIP, ""},
		"no type means ClusterIP": {
			"spec: {type: null, externalIPs: null, " + withoutNodePorts + "}",
			func(s *model.Service) {
				clusterIP(s)
				s.ExternalIPs, s.ExternalPolicy = nil, model.PolicyCluster
			}, "",
		},
		"type ClusterIP with node ports": {
			"spec: {type: ClusterIP}", clusterIP,
			"spec.ports[0].nodePort: Forbidden, spec.ports[1].nodePort: Forbidden, spec.ports[2].nodePort: Forbidden",
		},
		"type ExternalName, even with a ClusterIP": {"spec: {type: ExternalName}", nil, ""},
		"clusterIP None":  {"spec: {clusterIP: None}", nil, ""},
		"clusterIP empty": {`spec: {clusterIP: ""}`, nil, ""},
		"empty label service-proxy-name": {
			`metadata: {labels: {service.kubernetes.io/service-proxy-name: ""}}`, nil, "",
		},

		"ipFamilies reversed": {
			`spec: {ipFamilies: [IPv6, IPv4], clusterIP: "fd00:10:96::a", clusterIPs: ["fd00:10:96::a", 10.96.0.10]}`,
			func(s *model.Service) { s.ClusterIPs = addrs("fd00:10:96::a 10.96.0.10") }, "",
		},
		"single stack: addresses of the other family are skipped": {
			"spec: {ipFamilies: [IPv4], clusterIPs: [10.96.0.10]}",
			func(s *model.Service) {
				s.ClusterIPs, s.ExternalIPs, s.LoadBalancerIPs = s.ClusterIPs[:1], s.ExternalIPs[:1], s.LoadBalancerIPs[:1]
			},
			"spec.externalIPs[1]: Invalid value, status.loadBalancer.ingress[1].ip: Invalid value",
		},
		"externalIPs with leading zeros": {
			`spec: {externalIPs: ["198.051.100.001", none, "2001:DB8:0::1"]}`, same, "spec.externalIPs[1]: Invalid value",
		},
		"ingress in the mode Proxy": {
			`status: {loadBalancer: {ingress: [{ip: 198.51.100.2, ipMode: Proxy}, {ip: "2001:db8::2", ipMode: Proxy}]}}`,
			noBalancer, "",
		},
		"ingress with hostname and ports, which are ignored": {
			`status: {loadBalancer: {ingress: [{hostname: lb.example.com}, {ip: 198.51.100.2, ports: [{port: 81}]},
			 {ip: "2001:db8::2", hostname: lb.example.com}]}}`, same, "",
		},
		"loadBalancerSourceRanges, not the annotation": {
			`{spec: {loadBalancerSourceRanges: [" 203.0.113.7/24\n", "2001:db8:1:0::9/48"]},
			 metadata: {annotations: {service.beta.kubernetes.io/load-balancer-source-ranges: 192.0.2.0/24}}}`, same, "",
		},
		"externalTrafficPolicy Cluster needs no health checks": {
			"spec: {externalTrafficPolicy: Cluster}",
			func(s *model.Service) { s.ExternalPolicy, s.HealthCheckNodePort = model.PolicyCluster, 0 }, "",
		},
		"healthCheckNodePort 0": {"spec: {healthCheckNodePort: 0}", noHealthCheck, ""},
		"no internalTrafficPolicy": {
			"spec: {internalTrafficPolicy: null}", func(s *model.Service) { s.InternalPolicy = model.PolicyCluster }, "",
		},
		"sessionAffinity None ignores the timeout": {
			"spec: {sessionAffinity: None, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}}",
			func(s *model.Service) { s.Affinity = 0 }, "",
		},
		"affinity timeout of a second": {
			"spec: {sessionAffinityConfig: {clientIP: {timeoutSeconds: 1}}}",
			func(s *model.Service) { s.Affinity = time.Second }, "",
		},
		"fields of other programs": {
			"spec: {publishNotReadyAddresses: true, loadBalancerClass: example.com/lb, loadBalancerIP: 198.51.100.99, " +
				"ports: [{name: http, port: 80, nodePort: 30080, appProtocol: h2c}, " +
				"{name: dns, port: 53, nodePort: 30053, protocol: UDP}, " +
				"{name: sig, port: 53, nodePort: 30053, protocol: SCTP}]}", same, "",
		},
	})
}
