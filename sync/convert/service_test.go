package convert

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"kube-vmap/model"
)

// The address plan of the tests: ClusterIPs in 10.96.0.0/12 and fd00:10:96::/112,
// pods in 10.244.0.0/16 and fd00:10:244::/56, the world outside in the ranges
// for documentation.

// check reports how got differs from want, if it does.
func check(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Errorf("%s, -want +got\n%s", what, diff)
	}
}

// service returns a dual-stack Service with one port, changed by the test.
func service(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIP:  "10.96.0.10",
			ClusterIPs: []string{"10.96.0.10", "fd00:10:96::a"},
			Ports:      []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

// wantService returns the result of converting service(nil), changed by the test.
func wantService(change func(*model.Service)) *model.Service {
	s := &model.Service{
		Name:       model.ServiceName{Namespace: "shop", Name: "web"},
		ClusterIPs: addrs("10.96.0.10", "fd00:10:96::a"),
		Ports:      []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: 80}},
	}
	if change != nil {
		change(s)
	}
	return s
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// fields returns the fields and kinds of errors, without their details.
func fields(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Field+": "+err.Type.String())
	}
	return out
}

// A serviceTest changes a Service. Without want, nothing is left of it.
type serviceTest struct {
	change func(*corev1.Service)
	want   func(*model.Service)
	errs   []string // fields and kinds
}

func same(*model.Service) {}

// checkServices converts changed Services, and compares the results with changed ones.
func checkServices(t *testing.T, tests map[string]serviceTest, base func(func(*corev1.Service)) *corev1.Service,
	wanted func(func(*model.Service)) *model.Service,
) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var want *model.Service
			if test.want != nil {
				want = wanted(test.want)
			}
			got, errs := Service(base(test.change))
			check(t, "errors", test.errs, fields(errs))
			check(t, "result", want, got)
		})
	}
}

// TestService has what TestServiceFieldsAreThoseOfKubeProxy does not have.
func TestService(t *testing.T) {
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	checkServices(t, map[string]serviceTest{
		"with both families": {want: same},
		"with its creation time": {
			change: func(s *corev1.Service) { s.CreationTimestamp = metav1.NewTime(created) },
			want:   func(s *model.Service) { s.Created = created.UnixNano() },
		},
		"with clusterIP only, as old API servers wrote it": {
			change: func(s *corev1.Service) { s.Spec.ClusterIPs = nil },
			want:   func(s *model.Service) { s.ClusterIPs = addrs("10.96.0.10") },
		},
		"with canonical addresses": {
			change: func(s *corev1.Service) {
				s.Spec.ClusterIP = "010.096.000.010"
				s.Spec.ClusterIPs = []string{"010.096.000.010", "FD00:10:96:0:0:0:0:000A"}
				s.Spec.ExternalIPs = []string{"::ffff:198.51.100.1"}
			},
			want: func(s *model.Service) { s.ExternalIPs = addrs("198.51.100.1") },
		},
		"with a single unnamed port": {
			change: func(s *corev1.Service) { s.Spec.Ports[0].Name = "" },
			want:   func(s *model.Service) { s.Ports[0].Name = "" },
		},
		"with an affinity timeout": {
			change: func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
					ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(int32(86400))},
				}
			},
			want: func(s *model.Service) { s.Affinity = 24 * time.Hour },
		},
		"with a selector": {
			change: func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} },
			want:   func(s *model.Service) { s.Selects = true },
		},
		"with a traffic distribution": {
			change: func(s *corev1.Service) { s.Spec.TrafficDistribution = ptr.To("PreferSameZone") },
			want:   func(s *model.Service) { s.HintsField = "spec.trafficDistribution: PreferSameZone" },
		},
		"with a traffic distribution that is not known": {
			change: func(s *corev1.Service) { s.Spec.TrafficDistribution = ptr.To("Everywhere") }, want: same,
		},
		"with a topology mode, which comes first": {
			change: func(s *corev1.Service) {
				s.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"}
				s.Spec.TrafficDistribution = ptr.To("PreferClose")
			},
			want: func(s *model.Service) {
				s.HintsField = "metadata.annotations[service.kubernetes.io/topology-mode]: Auto"
			},
		},
		"with a topology mode that is disabled": {
			change: func(s *corev1.Service) {
				s.Annotations = map[string]string{
					corev1.AnnotationTopologyMode: "Disabled", corev1.DeprecatedAnnotationTopologyAwareHints: "auto",
				}
				s.Spec.TrafficDistribution = ptr.To("PreferClose")
			},
			want: func(s *model.Service) { s.HintsField = "spec.trafficDistribution: PreferClose" },
		},
		"with the old annotation of the topology mode": {
			change: func(s *corev1.Service) {
				s.Annotations = map[string]string{corev1.DeprecatedAnnotationTopologyAwareHints: "auto"}
			},
			want: func(s *model.Service) {
				s.HintsField = "metadata.annotations[service.kubernetes.io/topology-aware-hints]: Auto"
			},
		},
	}, service, wantService)
}

func TestInvalidPartsOfServiceAreSkipped(t *testing.T) {
	checkServices(t, map[string]serviceTest{
		"port with every field invalid": {
			change: addPorts(corev1.ServicePort{Name: "a\"b", Port: 65536, Protocol: "ICMP"}),
			want:   same,
			errs: []string{
				"spec.ports[1].name: Invalid value", "spec.ports[1].protocol: Unsupported value",
				"spec.ports[1].port: Invalid value",
			},
		},
		"unnamed port among several": {
			change: addPorts(corev1.ServicePort{Port: 81}),
			want:   same,
			errs:   []string{"spec.ports[1].name: Required value"},
		},
		"duplicate port name": {
			change: addPorts(corev1.ServicePort{Name: "http", Port: 81}),
			want:   same,
			errs:   []string{"spec.ports[1].name: Duplicate value"},
		},
		"duplicate port and protocol": {
			change: addPorts(corev1.ServicePort{Name: "more", Port: 80}),
			want:   same,
			errs:   []string{"spec.ports[1].port: Duplicate value"},
		},
		"duplicate node port": {
			change: func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeNodePort
				s.Spec.Ports[0].NodePort = 30080
				addPorts(corev1.ServicePort{Name: "more", Port: 81, NodePort: 30080})(s)
			},
			want: func(s *model.Service) { s.Ports[0].NodePort = 30080 },
			errs: []string{"spec.ports[1].nodePort: Duplicate value"},
		},
		"negative node port": {
			change: func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeNodePort
				addPorts(corev1.ServicePort{Name: "more", Port: 81, NodePort: -1})(s)
			},
			want: same,
			errs: []string{"spec.ports[1].nodePort: Invalid value"},
		},
		"invalid external IPs": {
			change: func(s *corev1.Service) {
				s.Spec.ExternalIPs = []string{
					"127.0.0.1", "::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "169.254.1.1", "fe80::1", "255.255.255.255",
					"198.51.100.1", "198.51.100.1",
				}
			},
			want: func(s *model.Service) { s.ExternalIPs = addrs("198.51.100.1") },
			errs: []string{
				"spec.externalIPs[0]: Invalid value", "spec.externalIPs[1]: Invalid value",
				"spec.externalIPs[2]: Invalid value", "spec.externalIPs[3]: Invalid value",
				"spec.externalIPs[4]: Invalid value", "spec.externalIPs[5]: Invalid value",
				"spec.externalIPs[6]: Invalid value", "spec.externalIPs[7]: Invalid value",
				"spec.externalIPs[8]: Invalid value", "spec.externalIPs[10]: Duplicate value",
			},
		},
		"unknown ipMode": {
			change: func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
					{IP: "198.51.100.2", IPMode: ptr.To(corev1.LoadBalancerIPMode("Teleport"))},
				}
			},
			want: same,
			errs: []string{"status.loadBalancer.ingress[0].ipMode: Unsupported value"},
		},
		"load balancer addresses with an invalid source range": {
			change: func(s *corev1.Service) {
				s.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24", "203.0.113.0/33"}
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.2"}}
			},
			want: same,
			errs: []string{"spec.loadBalancerSourceRanges[1]: Invalid value"},
		},
	}, service, wantService)
}

func addPorts(ports ...corev1.ServicePort) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, ports...) }
}

func TestUnusableServiceIsRefused(t *testing.T) {
	checkServices(t, map[string]serviceTest{
		"with a name that could end an nft comment": {
			change: func(s *corev1.Service) { s.Name = "web\" ; flush ruleset" },
			errs:   []string{"metadata.name: Invalid value"},
		},
		"with a namespace that is not a DNS label": {
			change: func(s *corev1.Service) { s.Namespace = "shop\n" },
			errs:   []string{"metadata.namespace: Invalid value"},
		},
		"with an invalid ClusterIP": {
			change: func(s *corev1.Service) { s.Spec.ClusterIPs[1] = "fd00::zz" },
			errs:   []string{"spec.clusterIPs[1]: Invalid value"},
		},
		"with an unusable ClusterIP": {
			change: func(s *corev1.Service) { s.Spec.ClusterIPs, s.Spec.ClusterIP = nil, "255.255.255.255" },
			errs:   []string{"spec.clusterIP: Invalid value"},
		},
		"with two ClusterIPs of one family": {
			change: func(s *corev1.Service) { s.Spec.ClusterIPs[1] = "10.96.0.11" },
			errs:   []string{"spec.clusterIPs[1]: Invalid value"},
		},
		"with three ClusterIPs": {
			change: func(s *corev1.Service) { s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "10.96.0.11") },
			errs:   []string{"spec.clusterIPs: Too many"},
		},
		"with a clusterIP other than the first of clusterIPs": {
			change: func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.11" },
			errs:   []string{"spec.clusterIPs[0]: Invalid value"},
		},
		"with ipFamilies that contradict clusterIPs": {
			change: func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} },
			errs:   []string{"spec.clusterIPs[0]: Invalid value", "spec.clusterIPs[1]: Invalid value"},
		},
		"without ports": {
			change: func(s *corev1.Service) { s.Spec.Ports = nil },
			errs:   []string{"spec.ports: Required value"},
		},
		"without a valid port": {
			change: func(s *corev1.Service) { s.Spec.Ports[0].Port = 0 },
			errs:   []string{"spec.ports[0].port: Invalid value", "spec.ports: Required value"},
		},
	}, service, nil)
}

// TestUnknownChoicesBecomeDefaults tests that an unknown word does not affect the rest
// of the Service, and that no value of an earlier version replaces it.
func TestUnknownChoicesBecomeDefaults(t *testing.T) {
	checkServices(t, map[string]serviceTest{
		"an unknown type": {
			change: func(s *corev1.Service) { s.Spec.Type = "Balancer" },
			errs:   []string{"spec.type: Unsupported value"},
			want:   same,
		},
		"an unknown affinity": {
			change: func(s *corev1.Service) { s.Spec.SessionAffinity = "Cookie" },
			errs:   []string{"spec.sessionAffinity: Unsupported value"},
			want:   same,
		},
		"affinity timeout of more than a day": {
			change: func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
					ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(int32(86401))},
				}
			},
			errs: []string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value"},
			want: func(s *model.Service) { s.Affinity = 3 * time.Hour },
		},
		"unknown policies": {
			change: func(s *corev1.Service) {
				s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicy("Near"))
				s.Spec.ExternalTrafficPolicy = "Far"
			},
			errs: []string{"spec.internalTrafficPolicy: Unsupported value", "spec.externalTrafficPolicy: Unsupported value"},
			want: same,
		},
		"invalid health check port": {
			change: func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeLoadBalancer
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
				s.Spec.HealthCheckNodePort = 70000
			},
			errs: []string{"spec.healthCheckNodePort: Invalid value"},
			want: func(s *model.Service) { s.ExternalPolicy = model.PolicyLocal },
		},
	}, service, wantService)
}
