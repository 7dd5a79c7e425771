package convert

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/model"
)

// many returns n items.
func many[T any](n int, item func(int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = item(i)
	}
	return out
}

// addrOf returns distinct addresses of both families.
func addrOf(i int) string {
	if i%2 == 0 {
		return netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}).String()
	}
	return fmt.Sprintf("2001:db8::%x", i)
}

func portOf(i int) corev1.ServicePort {
	return corev1.ServicePort{Name: fmt.Sprintf("p-%d", i), Port: int32(i + 1)}
}

func rangeOf(i int) string { return fmt.Sprintf("10.%d.%d.%d/32", byte(i>>16), byte(i>>8), byte(i)) }

func ingressOf(i int) corev1.LoadBalancerIngress { return corev1.LoadBalancerIngress{IP: addrOf(i)} }

// TestServiceLimits tests each limit and one more. The Service has a ClusterIP of each
// family, and is refused only for too many ports. Otherwise it loses the excess.
func TestServiceLimits(t *testing.T) {
	const ranges = "spec.loadBalancerSourceRanges"
	for name, test := range map[string]struct {
		most   int
		field  string
		change func(*corev1.Service, int)
	}{
		"addresses with ports": {5000, "spec.ports", func(s *corev1.Service, n int) { s.Spec.Ports = many(n, portOf) }},
		"ports": {maxFrontends, "spec.ports", func(s *corev1.Service, n int) {
			s.Spec.Ports, s.Spec.ClusterIPs = many(n, portOf), s.Spec.ClusterIPs[:1]
		}},
		"external IPs": {maxExternalIPs, "spec.externalIPs", func(s *corev1.Service, n int) {
			s.Spec.ExternalIPs = many(n, addrOf)
		}},
		"external IPs that are all the same": {maxExternalIPs, "spec.externalIPs", func(s *corev1.Service, n int) {
			s.Spec.ExternalIPs = slices.Repeat([]string{"198.51.100.1"}, n)
		}},
		"addresses of the load balancer": {maxFrontends - 2, "status.loadBalancer.ingress", func(s *corev1.Service, n int) {
			s.Status.LoadBalancer.Ingress = many(n, ingressOf)
		}},
		"source ranges": {maxSourceRanges, ranges, func(s *corev1.Service, n int) {
			s.Spec.LoadBalancerSourceRanges, s.Status.LoadBalancer.Ingress = many(n, rangeOf), many(1, ingressOf)
		}},
		"source ranges without an address": {maxSourceRanges, ranges, func(s *corev1.Service, n int) {
			s.Spec.LoadBalancerSourceRanges = many(n, rangeOf)
		}},
		"source ranges of each of ten addresses": {maxSourceRanges / 10, ranges, func(s *corev1.Service, n int) {
			s.Spec.LoadBalancerSourceRanges, s.Status.LoadBalancer.Ingress = many(n, rangeOf), many(10, ingressOf)
		}},
		"denied ranges at two node ports": {maxSourceRanges / 4, ranges, func(s *corev1.Service, n int) {
			s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeNodePort, many(2, portOf)
			for i := range s.Spec.Ports {
				s.Spec.Ports[i].NodePort = int32(30000 + i)
			}
			s.Annotations = map[string]string{annotationRanges: "all", annotationDenied: strings.Join(many(n, rangeOf), ",")}
		}},
	} {
		for _, n := range []int{test.most, test.most + 1} {
			over := n > test.most
			got, errs := Service(service(func(s *corev1.Service) { test.change(s, n) }))
			switch refused := over && test.field == "spec.ports"; {
			case refused != (got == nil):
				t.Errorf("%s: %d are refused: %t, %v", name, n, got == nil, errs)
			case !refused && (len(got.ClusterIPs) != 2 && name != "ports" || over && len(got.ExternalIPs)+len(got.LoadBalancerIPs) > 0):
				t.Errorf("%s: of %d, there are %v", name, n, got)
			case over && !strings.Contains(fields(errs), test.field+": Too many"):
				t.Errorf("%s: of %d, the errors are %v", name, n, errs)
			}
		}
	}
}

func TestTooManyMaglevTablesUseRandom(t *testing.T) {
	for ports, want := range map[int]model.Scheduler{maxTables / 2: model.SchedulerMaglev, maxTables/2 + 1: model.SchedulerRandom} {
		got, errs := Service(service(func(s *corev1.Service) {
			s.Annotations = map[string]string{"kube-vmap.io/scheduler": "mh"}
			s.Spec.Ports = many(ports, portOf)
		}))
		if got == nil || got.Scheduler != want || len(got.Ports) != ports {
			t.Fatalf("with %d ports of two families: %v, errors %v, want the scheduler %s", ports, got != nil, errs, want)
		}
		if reported := len(errs) > 0; reported != (want == model.SchedulerRandom) {
			t.Errorf("with %d ports, the errors are %v", ports, errs)
		}
	}
}

// TestSliceLimit multiplies endpoints by ports, as elements do.
func TestSliceLimit(t *testing.T) {
	for _, test := range []struct{ ports, endpoints int }{{1, maxSliceElements}, {maxSliceElements / 1000, 1000}, {20000, 5}} {
		for _, more := range []int{0, 1} {
			got, errs := Slice(slice(func(s *discoveryv1.EndpointSlice) {
				s.Ports, s.Endpoints = nil, nil
				for i := range test.ports {
					s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr.To(fmt.Sprintf("p-%d", i)), Port: ptr.To(int32(i + 1))})
				}
				for i := range test.endpoints + more {
					addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
					s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{addr.String()}})
				}
			}))
			if kept := got != nil; kept != (more == 0) || kept != (len(errs) == 0) {
				t.Errorf("%d ports x (%d + %d) endpoints: kept %t, errors %v", test.ports, test.endpoints, more, kept, errs)
			}
		}
	}
}

func TestNumberOfErrorsIsLimited(t *testing.T) {
	const wrong = maxExternalIPs
	_, errs := Service(service(func(s *corev1.Service) { s.Spec.ExternalIPs = slices.Repeat([]string{"127.0.0.1"}, wrong) }))
	if len(errs) != maxErrors+1 {
		t.Fatalf("%d errors, want %d and the number of others", len(errs), maxErrors)
	}
	if got, want := errs[maxErrors].Error(), fmt.Sprintf("and %d more errors", wrong-maxErrors); !strings.Contains(got, want) {
		t.Errorf("the last is %q, want %q", got, want)
	}
}

func TestLongValuesAreShortenedInErrors(t *testing.T) {
	long := strings.Repeat("ä", 100_000)
	got, errs := Service(service(func(s *corev1.Service) {
		s.Annotations = map[string]string{"kube-vmap.io/scheduler": long}
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "more", Port: 81, Protocol: corev1.Protocol(long)})
	}))
	if got == nil || len(errs) != 2 {
		t.Fatalf("got %v, errors %.1000v", got, errs)
	}
	for _, err := range errs {
		text := err.Error()
		if len(text) > 3*maxValue || !strings.Contains(text, `ää..."`) {
			t.Errorf("%d bytes: %.1000s", len(text), text)
		}
	}
}

// TestErrorsQuoteControlCharacters tests characters that terminals and logs interpret.
func TestErrorsQuoteControlCharacters(t *testing.T) {
	const hostile = "a\n2026 level=ERROR\r\x1b[2J\x00\"\u202e"
	for _, change := range []func(*corev1.Service){
		func(s *corev1.Service) { s.Annotations = map[string]string{"kube-vmap.io/scheduler": hostile} },
		func(s *corev1.Service) { s.Name = hostile },
		func(s *corev1.Service) { s.Namespace = hostile },
		func(s *corev1.Service) { s.Spec.Type = hostile },
		func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{hostile} },
		func(s *corev1.Service) { s.Spec.ExternalIPs = []string{hostile} },
		func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = hostile },
		func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{hostile} },
		func(s *corev1.Service) { s.Spec.Ports[0].Name = hostile },
		func(s *corev1.Service) { s.Spec.Ports[0].Protocol = hostile },
	} {
		_, errs := Service(service(change))
		if text := fmt.Sprint(errs.ToAggregate()); len(errs) == 0 || strings.ContainsAny(text, "\n\r\x1b\x00\u202e") {
			t.Errorf("unquoted, or no error: %q", text)
		}
	}
}

// TestTooLongListsAreNotParsed tests a list as long as fits in an object: comparing
// each address with all before it would take seconds.
func TestTooLongListsAreNotParsed(t *testing.T) {
	_, errs := Service(service(func(s *corev1.Service) { s.Spec.ExternalIPs = slices.Repeat([]string{"127.0.0.1"}, 130_000) }))
	if len(errs) != 1 || errs[0].Field != "spec.externalIPs" {
		t.Errorf("the errors are %v", errs)
	}
}
