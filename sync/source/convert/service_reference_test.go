package convert

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/model"
)

// everything has every field that some type of Service can have.
const everything = `{
	spec: {
		type: LoadBalancer, ipFamilies: [IPv4, IPv6], externalTrafficPolicy: Local, internalTrafficPolicy: Local,
		ports: [{name: http, port: 80, nodePort: 30080}, {name: dns, port: 53, nodePort: 30053, protocol: UDP},
			{name: sig, port: 53, nodePort: 30053, protocol: SCTP}],
		externalIPs: [198.51.100.1, "2001:db8::1"], healthCheckNodePort: 32000, sessionAffinity: ClientIP,
		loadBalancerSourceRanges: [203.0.113.0/24, "2001:db8:1::/48"],
	},
	status: {loadBalancer: {ingress: [{ip: 198.51.100.2, ipMode: VIP}, {ip: "2001:db8::2"}]}},
}`

// wantEverything returns the result of converting it in service(nil).
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
	base := changed(t, service(nil), everything)
	checkConversions(t, Service, base, wantEverything, map[string]conversionTest[model.Service]{
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
