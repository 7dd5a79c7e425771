package convert

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"kube-vmap/model"
)

// slice returns an EndpointSlice with a port and the endpoint 10.244.0.5, changed by
// the test.
func slice(change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-abc12",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(8080))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.5"}}},
	}
	if change != nil {
		change(s)
	}
	return s
}

// wantSlice returns the result of converting slice(nil), changed by the test.
func wantSlice(change func(*model.EndpointSlice)) *model.EndpointSlice {
	s := &model.EndpointSlice{
		Name:      model.EndpointSliceName{Namespace: "shop", Name: "web-abc12"},
		Service:   model.ServiceName{Namespace: "shop", Name: "web"},
		Ports:     []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: 8080}},
		Endpoints: []model.Endpoint{{Addr: netip.MustParseAddr("10.244.0.5"), Ready: true, Serving: true}},
	}
	if change != nil {
		change(s)
	}
	return s
}

// A sliceTest changes a slice.
type sliceTest struct {
	change func(*discoveryv1.EndpointSlice)
	want   func(*model.EndpointSlice) // nil: the slice without changes
	errs   []string                   // fields and kinds
}

// checkSlices converts changed slices; nothing is left of them if none is set.
func checkSlices(t *testing.T, none bool, tests map[string]sliceTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var want *model.EndpointSlice
			if !none {
				want = wantSlice(test.want)
			}
			got, errs := Slice(slice(test.change))
			check(t, "errors", test.errs, fields(errs))
			check(t, "result", want, got)
		})
	}
}

func TestSlice(t *testing.T) {
	checkSlices(t, false, map[string]sliceTest{
		"with absent conditions as the API defines them": {},
		"with conditions": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Endpoints[0].Conditions = discoveryv1.EndpointConditions{
					Ready: ptr.To(false), Serving: ptr.To(false), Terminating: ptr.To(true),
				}
			},
			want: func(s *model.EndpointSlice) {
				s.Endpoints[0].Ready, s.Endpoints[0].Serving, s.Endpoints[0].Terminating = false, false, true
			},
		},
		"that a controller manages": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
			},
			want: func(s *model.EndpointSlice) { s.Managed = true },
		},
		"that an author of its own manages": {
			change: func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "staff" },
		},
		"with the first address of an endpoint only": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Endpoints[0].Addresses = []string{"10.244.0.5", "10.244.0.6", "rubbish"}
			},
		},
		"with canonical addresses": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Endpoints = []discoveryv1.Endpoint{
					{Addresses: []string{"010.244.000.005"}}, {Addresses: []string{"::ffff:10.244.0.6"}},
				}
			},
			want: func(s *model.EndpointSlice) {
				s.Endpoints = append(s.Endpoints, s.Endpoints[0])
				s.Endpoints[1].Addr = netip.MustParseAddr("10.244.0.6")
			},
		},
		"in IPv6": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.AddressType = discoveryv1.AddressTypeIPv6
				s.Endpoints[0].Addresses[0] = "FD00:10:244:0::5"
			},
			want: func(s *model.EndpointSlice) {
				s.Family = model.IPv6
				s.Endpoints[0].Addr = netip.MustParseAddr("fd00:10:244::5")
			},
		},
		"with ports of all protocols": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Ports = append(s.Ports,
					discoveryv1.EndpointPort{Name: ptr.To("dns"), Port: ptr.To(int32(53)), Protocol: ptr.To(corev1.ProtocolUDP)},
					discoveryv1.EndpointPort{Name: ptr.To("sig"), Port: ptr.To(int32(53)), Protocol: ptr.To(corev1.ProtocolSCTP)})
			},
			want: func(s *model.EndpointSlice) {
				s.Ports = append(s.Ports,
					model.EndpointPort{Name: "dns", Protocol: model.UDP, Port: 53},
					model.EndpointPort{Name: "sig", Protocol: model.SCTP, Port: 53})
			},
		},
		"with an unnamed port": {
			change: func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = nil },
			want:   func(s *model.EndpointSlice) { s.Ports[0].Name = "" },
		},
		"with node and hints": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Endpoints[0].NodeName = ptr.To("worker-1.example.com")
				s.Endpoints[0].Hints = &discoveryv1.EndpointHints{
					ForZones: []discoveryv1.ForZone{{Name: "zone-b"}, {Name: "Zone_A"}},
					ForNodes: []discoveryv1.ForNode{{Name: "worker-1"}},
				}
			},
			want: func(s *model.EndpointSlice) {
				s.Endpoints[0].Node = "worker-1.example.com"
				s.Endpoints[0].ZoneHints = model.NameSetOf("Zone_A", "zone-b")
				s.Endpoints[0].NodeHints = model.NameSetOf("worker-1")
			},
		},
		"without endpoints": {
			change: func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil },
			want:   func(s *model.EndpointSlice) { s.Endpoints = nil },
		},
	})
}

func TestSlicesNotServed(t *testing.T) {
	checkSlices(t, true, map[string]sliceTest{
		"of a headless Service": {change: func(s *discoveryv1.EndpointSlice) { s.Labels[LabelHeadless] = "" }},
		"of no Service":         {change: func(s *discoveryv1.EndpointSlice) { s.Labels = nil }},
		"of domain names":       {change: func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN }},
	})
}

func TestInvalidPartsOfSliceAreSkipped(t *testing.T) {
	checkSlices(t, false, map[string]sliceTest{
		"endpoints with invalid addresses": {
			change: func(s *discoveryv1.EndpointSlice) {
				for _, a := range []string{"127.0.0.1", "0.0.0.0", "224.0.0.1", "169.254.1.1", "255.255.255.255", "fd00::1"} {
					s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
				}
			},
			errs: []string{
				"endpoints[1].addresses[0]: Invalid value", "endpoints[2].addresses[0]: Invalid value",
				"endpoints[3].addresses[0]: Invalid value", "endpoints[4].addresses[0]: Invalid value",
				"endpoints[5].addresses[0]: Invalid value", "endpoints[6].addresses[0]: Invalid value",
			},
		},
		"endpoint without an address": {
			change: func(s *discoveryv1.EndpointSlice) { s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{}) },
			errs:   []string{"endpoints[1].addresses: Required value"},
		},
		"invalid node and hints": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Endpoints[0].NodeName = ptr.To("worker\"1")
				s.Endpoints[0].Hints = &discoveryv1.EndpointHints{
					ForZones: []discoveryv1.ForZone{{Name: "a,b"}},
					ForNodes: []discoveryv1.ForNode{{Name: strings.Repeat("n", 254)}},
				}
			},
			errs: []string{
				"endpoints[0].nodeName: Invalid value",
				"endpoints[0].hints.forZones[0].name: Invalid value",
				"endpoints[0].hints.forNodes[0].name: Invalid value",
			},
		},
		"port without a number": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr.To("all")})
			},
			errs: []string{"ports[1].port: Required value"},
		},
		"port with every field invalid": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Ports = append(s.Ports, discoveryv1.EndpointPort{
					Name: ptr.To("A B"), Port: ptr.To(int32(0)), Protocol: ptr.To(corev1.Protocol("tcp")),
				})
			},
			errs: []string{
				"ports[1].name: Invalid value", "ports[1].protocol: Unsupported value", "ports[1].port: Invalid value",
			},
		},
		"duplicate port name": {
			change: func(s *discoveryv1.EndpointSlice) { s.Ports = append(s.Ports, s.Ports[0]) },
			errs:   []string{"ports[1].name: Duplicate value"},
		},
	})
}

func TestUnusableSliceIsRefused(t *testing.T) {
	checkSlices(t, true, map[string]sliceTest{
		"with names that could end an nft comment": {
			change: func(s *discoveryv1.EndpointSlice) {
				s.Namespace, s.Name = "\"", "\n"
				s.Labels[discoveryv1.LabelServiceName] = "\\"
			},
			errs: []string{
				"metadata.namespace: Invalid value", "metadata.name: Invalid value",
				"metadata.labels[kubernetes.io/service-name]: Invalid value",
			},
		},
		"with an unknown address type": {
			change: func(s *discoveryv1.EndpointSlice) { s.AddressType = "IPX" },
			errs:   []string{"addressType: Unsupported value"},
		},
		"without a valid endpoint": {
			change: func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "::1" },
			errs:   []string{"endpoints[0].addresses[0]: Invalid value", "endpoints: Required value"},
		},
		"without a valid port": {
			change: func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = nil },
			errs:   []string{"ports[0].port: Required value", "ports: Required value"},
		},
	})
}

func TestServiceCIDR(t *testing.T) {
	cidr := &networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{
		CIDRs: []string{"10.96.0.0/12", "fd00:10:96::/112", "10.96.0.0", "::ffff:10.0.0.0/104", "0.0.0.0/0", "2000::/3"},
	}}
	got, errs := ServiceCIDR(cidr)
	want := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10:96::/112")}
	check(t, "result", want, got)
	wantErrs := []string{
		"spec.cidrs[2]: Invalid value", "spec.cidrs[3]: Invalid value",
		"spec.cidrs[4]: Invalid value", "spec.cidrs[5]: Invalid value", // of everything, nearly
	}
	check(t, "errors", wantErrs, fields(errs))
	if got, errs := ServiceCIDR(&networkingv1.ServiceCIDR{}); got != nil || len(errs) != 1 {
		t.Errorf("without ranges: got %v, errors %v", got, errs)
	}
}

func FuzzPlainName(f *testing.F) {
	for _, name := range []string{"", "a", "worker-1", "ip-10-0-0-1.ec2.internal", "a.", ".a", "a..b", "a-.b", "a.-b", "-", "A", strings.Repeat("a", 63), strings.Repeat("a", 64)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if want := len(validation.IsDNS1123Subdomain(name)) == 0; isPlainName(name) != want {
			t.Errorf("isPlainName(%q) = %v", name, !want)
		}
		for _, problems := range []func(string) []string{validation.IsDNS1123Label, validation.IsDNS1123Subdomain, content.IsLabelValue} {
			if found, err := problems(name), invalidName(nil, name, problems); (len(found) > 0) != (err != nil) {
				t.Errorf("invalidName(%q) returns %v, and the problems are %q", name, err, found)
			}
		}
	})
}
