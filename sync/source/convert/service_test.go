package convert

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

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

// changed returns an object changed by a YAML document: null removes a field, and a list replaces
// one.
func changed[T any](t *testing.T, object *T, change string) *T {
	t.Helper()
	before, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	fields, out := map[string]any{}, new(T)
	for _, text := range []string{string(before), change} {
		more := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &more); err != nil {
			t.Fatal(err)
		}
		merge(fields, more)
	}
	after, err := yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(after, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// merge changes fields of a map.
func merge(into, change map[string]any) {
	for name, value := range change {
		before, _ := into[name].(map[string]any)
		if fields, ok := value.(map[string]any); ok && before != nil {
			merge(before, fields)
		} else {
			into[name] = value
		}
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

// wantService returns the result of converting service(nil).
func wantService() *model.Service {
	return &model.Service{
		Name:       model.ServiceName{Namespace: "shop", Name: "web"},
		ClusterIPs: addrs("10.96.0.10 fd00:10:96::a"),
		Ports:      []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: 80}},
	}
}

func addrs(words string) []netip.Addr {
	var out []netip.Addr
	for word := range strings.FieldsSeq(words) {
		out = append(out, netip.MustParseAddr(word))
	}
	return out
}

// fields returns the fields and kinds of errors, without their details.
func fields(errs field.ErrorList) string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Field+": "+err.Type.String())
	}
	return strings.Join(out, ", ")
}

// A conversionTest changes an object by a YAML document. Without want, the object is not
// used.
type conversionTest[V any] struct {
	change string
	want   func(*V)
	errs   string // fields and kinds
}

// checkConversions converts changed objects, and compares the results with changed ones.
func checkConversions[O, V any](t *testing.T, convert func(*O) (*V, field.ErrorList), object *O, wanted func() *V,
	tests map[string]conversionTest[V],
) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var want *V
			if test.want != nil {
				want = wanted()
				test.want(want)
			}
			got, errs := convert(changed(t, object, test.change))
			check(t, "errors", test.errs, fields(errs))
			check(t, "result", want, got)
		})
	}
}

func same(*model.Service) {}

// TestService has cases that TestServiceFieldsAreThoseOfKubeProxy does not have.
func TestService(t *testing.T) {
	const mode = "service.kubernetes.io/topology-mode"
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	hints := func(field string) func(*model.Service) {
		return func(s *model.Service) { s.HintsField = field }
	}
	checkConversions(t, Service, service(nil), wantService, map[string]conversionTest[model.Service]{
		"with both families": {"", same, ""},
		"with its creation time": {
			`metadata: {creationTimestamp: "2026-03-01T12:00:00Z"}`, func(s *model.Service) { s.Created = created }, "",
		},
		"with clusterIP only, as in a manifest": {
			"spec: {clusterIPs: null}", func(s *model.Service) { s.ClusterIPs = addrs("10.96.0.10") }, "",
		},
		"with canonical addresses": {
			`spec: {clusterIP: "010.096.000.010", clusterIPs: ["010.096.000.010", "FD00:10:96:0:0:0:0:000A"],
			 externalIPs: ["::ffff:198.51.100.1"]}`, func(s *model.Service) { s.ExternalIPs = addrs("198.51.100.1") }, "",
		},
		"with a single unnamed port": {
			"spec: {ports: [{port: 80}]}", func(s *model.Service) { s.Ports[0].Name = "" }, "",
		},
		"with an affinity timeout": {
			"spec: {sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86400}}}",
			func(s *model.Service) { s.Affinity = 24 * time.Hour }, "",
		},
		"with a selector": {"spec: {selector: {app: web}}", func(s *model.Service) { s.Selects = true }, ""},
		"with a traffic distribution": {
			"spec: {trafficDistribution: PreferSameZone}", hints("spec.trafficDistribution: PreferSameZone"), "",
		},
		"with a traffic distribution that is not known": {"spec: {trafficDistribution: Everywhere}", same, ""},
		"with a topology mode, which comes first": {
			"{metadata: {annotations: {" + mode + ": Auto}}, spec: {trafficDistribution: PreferClose}}",
			hints("metadata.annotations[" + mode + "]: Auto"), "",
		},
		"with a topology mode that is disabled": {
			"{metadata: {annotations: {" + mode + ": Disabled, service.kubernetes.io/topology-aware-hints: auto}}, " +
				"spec: {trafficDistribution: PreferClose}}", hints("spec.trafficDistribution: PreferClose"), "",
		},
		"with the old annotation of the topology mode": {
			"metadata: {annotations: {service.kubernetes.io/topology-aware-hints: auto}}",
			hints("metadata.annotations[service.kubernetes.io/topology-aware-hints]: Auto"), "",
		},
	})
}

// TestInvalidPartsOfServiceAreSkipped also has unknown words, which become the API's default: no
// value of an earlier version of the Service replaces them.
func TestInvalidPartsOfServiceAreSkipped(t *testing.T) {
	checkConversions(t, Service, service(nil), wantService, map[string]conversionTest[model.Service]{
		"port with every field invalid": {
			`spec: {ports: [{name: http, port: 80}, {name: 'a"b', port: 65536, protocol: ICMP}]}`, same,
			"spec.ports[1].name: Invalid value, spec.ports[1].protocol: Unsupported value, spec.ports[1].port: Invalid value",
		},
		"unnamed port among several": {
			"spec: {ports: [{name: http, port: 80}, {port: 81}]}", same, "spec.ports[1].name: Required value",
		},
		"duplicate port name": {
			"spec: {ports: [{name: http, port: 80}, {name: http, port: 81}]}", same, "spec.ports[1].name: Duplicate value",
		},
		"duplicate port and protocol": {
			"spec: {ports: [{name: http, port: 80}, {name: more, port: 80}]}", same, "spec.ports[1].port: Duplicate value",
		},
		"duplicate node port": {
			"spec: {type: NodePort, ports: [{name: http, port: 80, nodePort: 30080}, {name: more, port: 81, nodePort: 30080}]}",
			func(s *model.Service) { s.Ports[0].NodePort = 30080 }, "spec.ports[1].nodePort: Duplicate value",
		},
		"negative node port": {
			"spec: {type: NodePort, ports: [{name: http, port: 80}, {name: more, port: 81, nodePort: -1}]}", same,
			"spec.ports[1].nodePort: Invalid value",
		},
		"invalid external IPs": {
			`spec: {externalIPs: [127.0.0.1, "::1", 0.0.0.0, "::", 224.0.0.1, "ff02::1", 169.254.1.1, "fe80::1",
			 255.255.255.255, 198.51.100.1, 198.51.100.1]}`,
			func(s *model.Service) { s.ExternalIPs = addrs("198.51.100.1") },
			"spec.externalIPs[0]: Invalid value, spec.externalIPs[1]: Invalid value, spec.externalIPs[2]: Invalid value, " +
				"spec.externalIPs[3]: Invalid value, spec.externalIPs[4]: Invalid value, spec.externalIPs[5]: Invalid value, " +
				"spec.externalIPs[6]: Invalid value, spec.externalIPs[7]: Invalid value, spec.externalIPs[8]: Invalid value, " +
				"spec.externalIPs[10]: Duplicate value",
		},
		"unknown ipMode": {
			"status: {loadBalancer: {ingress: [{ip: 198.51.100.2, ipMode: Teleport}]}}", same,
			"status.loadBalancer.ingress[0].ipMode: Unsupported value",
		},
		"load balancer addresses with an invalid source range": {
			"{spec: {loadBalancerSourceRanges: [203.0.113.0/24, 203.0.113.0/33]}, " +
				"status: {loadBalancer: {ingress: [{ip: 198.51.100.2}]}}}", same,
			"spec.loadBalancerSourceRanges[1]: Invalid value",
		},
		"unknown type":     {"spec: {type: Balancer}", same, "spec.type: Unsupported value"},
		"unknown affinity": {"spec: {sessionAffinity: Cookie}", same, "spec.sessionAffinity: Unsupported value"},
		"affinity timeout of more than a day": {
			"spec: {sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}}",
			func(s *model.Service) { s.Affinity = 3 * time.Hour },
			"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value",
		},
		"unknown policies": {
			"spec: {internalTrafficPolicy: Near, externalTrafficPolicy: Far}", same,
			"spec.internalTrafficPolicy: Unsupported value, spec.externalTrafficPolicy: Unsupported value",
		},
		"invalid health check port": {
			"spec: {type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 70000}",
			func(s *model.Service) { s.ExternalPolicy = model.PolicyLocal }, "spec.healthCheckNodePort: Invalid value",
		},
	})
}

func TestUnusableServiceIsRefused(t *testing.T) {
	checkConversions(t, Service, service(nil), nil, map[string]conversionTest[model.Service]{
		"with a name that could end an nft comment": {
			`metadata: {name: 'web" ; flush ruleset'}`, nil, "metadata.name: Invalid value",
		},
		"with a namespace that is not a DNS label": {
			`metadata: {namespace: "shop\n"}`, nil, "metadata.namespace: Invalid value",
		},
		"with an invalid ClusterIP": {
			`spec: {clusterIPs: [10.96.0.10, "fd00::zz"]}`, nil, "spec.clusterIPs[1]: Invalid value",
		},
		"with an unusable ClusterIP": {
			"spec: {clusterIPs: null, clusterIP: 255.255.255.255}", nil, "spec.clusterIP: Invalid value",
		},
		"with two ClusterIPs of one family": {
			"spec: {clusterIPs: [10.96.0.10, 10.96.0.11]}", nil, "spec.clusterIPs[1]: Invalid value",
		},
		"with three ClusterIPs": {
			`spec: {clusterIPs: [10.96.0.10, "fd00:10:96::a", 10.96.0.11]}`, nil, "spec.clusterIPs: Too many",
		},
		"with a clusterIP other than the first of clusterIPs": {
			"spec: {clusterIP: 10.96.0.11}", nil, "spec.clusterIPs[0]: Invalid value",
		},
		"with ipFamilies that contradict clusterIPs": {
			"spec: {ipFamilies: [IPv6]}", nil, "spec.clusterIPs[0]: Invalid value, spec.clusterIPs[1]: Invalid value",
		},
		"without ports": {"spec: {ports: null}", nil, "spec.ports: Required value"},
		"without a valid port": {
			"spec: {ports: [{name: http}]}", nil, "spec.ports[0].port: Invalid value, spec.ports: Required value",
		},
	})
}
