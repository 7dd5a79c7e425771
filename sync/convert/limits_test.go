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
// family, and is refused only for too many ports.
func TestServiceLimits(t *testing.T) {
	none := func(*model.Service) int { return 0 }
	external := func(s *model.Service) int { return len(s.ExternalIPs) }
	balanced := func(s *model.Service) int { return len(s.LoadBalancerIPs) }
	tests := map[string]struct {
		most   int
		change func(*corev1.Service, int)
		field  string
		served func(*model.Service) int // of what is not served beyond the limit
	}{
		"addresses with ports": {
			5000, func(s *corev1.Service, n int) { s.Spec.Ports = many(n, portOf) }, "spec.ports", nil,
		},
		"ports": {
			maxFrontends, func(s *corev1.Service, n int) {
				s.Spec.Ports, s.Spec.ClusterIPs = many(n, portOf), s.Spec.ClusterIPs[:1]
			}, "spec.ports", nil,
		},
		"external IPs": {
			maxExternalIPs, func(s *corev1.Service, n int) { s.Spec.ExternalIPs = many(n, addrOf) }, "spec.externalIPs", external,
		},
		"external IPs that are all the same": {
			maxExternalIPs, func(s *corev1.Service, n int) { s.Spec.ExternalIPs = slices.Repeat([]string{"198.51.100.1"}, n) }, "spec.externalIPs", external,
		},
		"addresses of the load balancer": {
			maxFrontends - 2, func(s *corev1.Service, n int) { s.Status.LoadBalancer.Ingress = many(n, ingressOf) },
			"status.loadBalancer.ingress", balanced,
		},
		"source ranges": {
			maxSourceRanges, func(s *corev1.Service, n int) {
				s.Spec.LoadBalancerSourceRanges, s.Status.LoadBalancer.Ingress = many(n, rangeOf), many(1, ingressOf)
			}, "spec.loadBalancerSourceRanges", balanced,
		},
		"source ranges without an address": {
			maxSourceRanges, func(s *corev1.Service, n int) { s.Spec.LoadBalancerSourceRanges = many(n, rangeOf) }, "spec.loadBalancerSourceRanges", none,
		},
		"source ranges of each of ten addresses": {
			maxSourceRanges / 10, func(s *corev1.Service, n int) {
				s.Spec.LoadBalancerSourceRanges, s.Status.LoadBalancer.Ingress = many(n, rangeOf), many(10, ingressOf)
			}, "spec.loadBalancerSourceRanges", balanced,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{test.most, test.most + 1} {
				within := n == test.most
				got, errs := Service(service(func(s *corev1.Service) { test.change(s, n) }))
				switch {
				case got == nil:
					if within || test.served != nil {
						t.Errorf("%d are refused: %v", n, errs)
					}
				case test.served == nil && !within:
					t.Errorf("%d are not refused", n)
				case len(got.ClusterIPs) != 2 && name != "ports" || test.served != nil && !within && test.served(got) > 0:
					t.Errorf("of %d, there are %v", n, got)
				}
				if want := test.field + ": Too many"; !within && !strings.Contains(errs.ToAggregate().Error(), want) {
					t.Errorf("of %d, the errors are %v, want %q", n, errs, want)
				}
			}
		})
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
	check := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if strings.ContainsAny(err.Error(), "\n\r\x1b\x00\u202e") {
				t.Errorf("unquoted: %q", err)
			}
		}
	}
	_, errs := Service(service(func(s *corev1.Service) {
		s.Annotations = map[string]string{"kube-vmap.io/scheduler": hostile}
		s.Spec.ExternalIPs = []string{hostile}
		s.Spec.LoadBalancerSourceRanges = []string{hostile}
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: hostile, Port: 81, Protocol: hostile})
	}))
	if len(errs) != 5 {
		t.Errorf("%d errors, want 5: %v", len(errs), errs)
	}
	for _, err := range errs {
		check(err)
	}
	for _, change := range []func(*corev1.Service){
		func(s *corev1.Service) { s.Name = hostile },
		func(s *corev1.Service) { s.Namespace = hostile },
		func(s *corev1.Service) { s.Spec.Type = hostile },
		func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{hostile} },
		func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = hostile },
	} {
		_, errs := Service(service(change))
		if len(errs) == 0 {
			t.Error("there are no errors")
		}
		check(errs.ToAggregate())
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
