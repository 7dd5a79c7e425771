package convert

import (
	"net/netip"
	"strings"
	"testing"

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

// wantSlice returns the result of converting slice(nil).
func wantSlice() *model.EndpointSlice {
	return &model.EndpointSlice{
		Name:      model.EndpointSliceName{Namespace: "shop", Name: "web-abc12"},
		Service:   model.ServiceName{Namespace: "shop", Name: "web"},
		Ports:     []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: 8080}},
		Endpoints: []model.Endpoint{{Addr: netip.MustParseAddr("10.244.0.5"), Ready: true, Serving: true}},
	}
}

func sameSlice(*model.EndpointSlice) {}

func TestSlice(t *testing.T) {
	checkConversions(t, Slice, slice(nil), wantSlice, map[string]conversionTest[model.EndpointSlice]{
		"with absent conditions as the API defines them": {"", sameSlice, ""},
		"with conditions": {
			"endpoints: [{addresses: [10.244.0.5], conditions: {ready: false, serving: false, terminating: true}}]",
			func(s *model.EndpointSlice) {
				s.Endpoints[0].Ready, s.Endpoints[0].Serving, s.Endpoints[0].Terminating = false, false, true
			}, "",
		},
		"that a controller manages": {
			"metadata: {labels: {endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}}",
			func(s *model.EndpointSlice) { s.Managed = true }, "",
		},
		"that an author of its own manages": {
			"metadata: {labels: {endpointslice.kubernetes.io/managed-by: staff}}", sameSlice, "",
		},
		"with the first address of an endpoint only": {
			"endpoints: [{addresses: [10.244.0.5, 10.244.0.6, rubbish]}]", sameSlice, "",
		},
		"with canonical addresses": {
			`endpoints: [{addresses: ["010.244.000.005"]}, {addresses: ["::ffff:10.244.0.6"]}]`,
			func(s *model.EndpointSlice) {
				s.Endpoints = append(s.Endpoints, s.Endpoints[0])
				s.Endpoints[1].Addr = netip.MustParseAddr("10.244.0.6")
			}, "",
		},
		"in IPv6": {
			`{addressType: IPv6, endpoints: [{addresses: ["FD00:10:244:0::5"]}]}`,
			func(s *model.EndpointSlice) {
				s.Family, s.Endpoints[0].Addr = model.IPv6, netip.MustParseAddr("fd00:10:244::5")
			}, "",
		},
		"with ports of all protocols": {
			"ports: [{name: http, port: 8080}, {name: dns, port: 53, protocol: UDP}, {name: sig, port: 53, protocol: SCTP}]",
			func(s *model.EndpointSlice) {
				s.Ports = append(s.Ports,
					model.EndpointPort{Name: "dns", Protocol: model.UDP, Port: 53},
					model.EndpointPort{Name: "sig", Protocol: model.SCTP, Port: 53})
			}, "",
		},
		"with an unnamed port": {
			"ports: [{port: 8080}]", func(s *model.EndpointSlice) { s.Ports[0].Name = "" }, "",
		},
		"with node and hints": {
			"endpoints: [{addresses: [10.244.0.5], nodeName: worker-1.example.com, " +
				"hints: {forZones: [{name: zone-b}, {name: Zone_A}], forNodes: [{name: worker-1}]}}]",
			func(s *model.EndpointSlice) {
				e := &s.Endpoints[0]
				e.Node, e.NodeHints = "worker-1.example.com", model.NameSetOf("worker-1")
				e.ZoneHints = model.NameSetOf("Zone_A", "zone-b")
			}, "",
		},
		"without endpoints": {"endpoints: null", func(s *model.EndpointSlice) { s.Endpoints = nil }, ""},

		"of a headless Service": {`metadata: {labels: {service.kubernetes.io/headless: ""}}`, nil, ""},
		"of no Service":         {"metadata: {labels: null}", nil, ""},
		"of domain names":       {"addressType: FQDN", nil, "addressType: Invalid value"},
	})
}

func TestInvalidPartsOfSliceAreSkipped(t *testing.T) {
	checkConversions(t, Slice, slice(nil), wantSlice, map[string]conversionTest[model.EndpointSlice]{
		"endpoints with invalid addresses": {
			`endpoints: [{addresses: [10.244.0.5]}, {addresses: [127.0.0.1]}, {addresses: [0.0.0.0]}, {addresses: [224.0.0.1]},
			 {addresses: [169.254.1.1]}, {addresses: [255.255.255.255]}, {addresses: ["fd00::1"]}]`, sameSlice,
			"endpoints[1].addresses[0]: Invalid value, endpoints[2].addresses[0]: Invalid value, " +
				"endpoints[3].addresses[0]: Invalid value, endpoints[4].addresses[0]: Invalid value, " +
				"endpoints[5].addresses[0]: Invalid value, endpoints[6].addresses[0]: Invalid value",
		},
		"endpoint without an address": {
			"endpoints: [{addresses: [10.244.0.5]}, {}]", sameSlice, "endpoints[1].addresses: Required value",
		},
		"invalid node and hints": {
			`endpoints: [{addresses: [10.244.0.5], nodeName: 'worker"1', hints: {forZones: [{name: "a,b"}], forNodes: [{name: ` +
				strings.Repeat("n", 254) + "}]}}]", sameSlice,
			"endpoints[0].nodeName: Invalid value, endpoints[0].hints.forZones[0].name: Invalid value, " +
				"endpoints[0].hints.forNodes[0].name: Invalid value",
		},
		"port without a number": {
			"ports: [{name: http, port: 8080}, {name: all}]", sameSlice, "ports[1].port: Required value",
		},
		"port with every field invalid": {
			"ports: [{name: http, port: 8080}, {name: A B, port: 0, protocol: tcp}]", sameSlice,
			"ports[1].name: Invalid value, ports[1].protocol: Unsupported value, ports[1].port: Invalid value",
		},
		"duplicate port name": {
			"ports: [{name: http, port: 8080}, {name: http, port: 8080}]", sameSlice, "ports[1].name: Duplicate value",
		},
	})
}

func TestUnusableSliceIsRefused(t *testing.T) {
	checkConversions(t, Slice, slice(nil), nil, map[string]conversionTest[model.EndpointSlice]{
		"with names that could end an nft comment": {
			`metadata: {namespace: '"', name: "\n", labels: {kubernetes.io/service-name: '\'}}`, nil,
			"metadata.namespace: Invalid value, metadata.name: Invalid value, " +
				"metadata.labels[kubernetes.io/service-name]: Invalid value",
		},
		"with an unknown address type": {"addressType: IPX", nil, "addressType: Unsupported value"},
		"without a valid endpoint": {
			`endpoints: [{addresses: ["::1"]}]`, nil, "endpoints[0].addresses[0]: Invalid value, endpoints: Required value",
		},
		"without a valid port": {
			"ports: [{name: http}]", nil, "ports[0].port: Required value, ports: Required value",
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
	check(t, "errors", "spec.cidrs[2]: Invalid value, spec.cidrs[3]: Invalid value, "+
		"spec.cidrs[4]: Invalid value, spec.cidrs[5]: Invalid value", fields(errs)) // the last are of everything, nearly
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
