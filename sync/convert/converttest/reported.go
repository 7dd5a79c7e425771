package converttest

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"kube-vmap/model"
)

// checkErrors checks that an object is used if the proxy serves it, or errors say why
// not.
func checkErrors(t *testing.T, used, ours bool, errs field.ErrorList) {
	t.Helper()
	if !ours && (used || len(errs) > 0) || ours && !used && len(errs) == 0 {
		t.Errorf("used %v, to be served %v, errors %v", used, ours, errs)
	}
	for _, err := range errs {
		if err.Field == "" || strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("error without a field, or of several lines: %q", err.Error())
		}
	}
	_ = errs.ToAggregate()
}

// reported are the list entries that errors are about: "spec.ports[1]".
type reported map[string]bool

// andMore is the field of the error that counts those beyond the limit.
const andMore = "..."

func reportedBy(errs field.ErrorList) reported {
	out := reported{}
	for _, err := range errs {
		entry, _, _ := strings.Cut(err.Field, "]")
		out[entry] = true
	}
	return out
}

// has reports whether an error is about the entry, or about the whole list.
func (r reported) has(list string, i int) bool {
	return r[andMore] || r[list] || r[list+"["+strconv.Itoa(i)]
}

// CheckServiceResult checks what a Service was converted to: it must be well formed,
// and every part of the Service must be used or reported.
func CheckServiceResult(t *testing.T, s *corev1.Service, out *model.Service, errs field.ErrorList) {
	t.Helper()
	_, others := s.Labels["service.kubernetes.io/service-proxy-name"]
	ip := s.Spec.ClusterIP
	checkErrors(t, out != nil, ip != "" && ip != corev1.ClusterIPNone && s.Spec.Type != corev1.ServiceTypeExternalName && !others, errs)
	if out == nil {
		return
	}
	CheckService(t, *out)
	found := reportedBy(errs)
	for i, p := range s.Spec.Ports {
		used := slices.ContainsFunc(out.Ports, func(o model.ServicePort) bool {
			return o.Name == p.Name && int32(o.Port) == p.Port && int32(o.NodePort) == p.NodePort
		})
		if !used && !found.has("spec.ports", i) {
			t.Errorf("port %+v is neither used nor reported: %v", p, errs)
		}
	}
	for i, text := range s.Spec.ExternalIPs {
		if !usedAddr(text, out.ExternalIPs) && !found.has("spec.externalIPs", i) {
			t.Errorf("externalIPs[%d] %q is neither used nor reported: %v", i, text, errs)
		}
	}
	closed := false
	for i := range s.Spec.LoadBalancerSourceRanges {
		closed = closed || found.has("spec.loadBalancerSourceRanges", i)
	}
	if len(s.Spec.LoadBalancerSourceRanges) > 0 && len(out.SourceRanges) == 0 && len(out.LoadBalancerIPs) > 0 {
		t.Errorf("all ranges %q were dropped, which opens %v", s.Spec.LoadBalancerSourceRanges, out.LoadBalancerIPs)
	}
	for i, ingress := range s.Status.LoadBalancer.Ingress {
		proxy := ingress.IPMode != nil && *ingress.IPMode == corev1.LoadBalancerIPModeProxy
		idle := ingress.IP == "" || proxy || closed
		if !idle && !usedAddr(ingress.IP, out.LoadBalancerIPs) && !found.has("status.loadBalancer.ingress", i) {
			t.Errorf("ingress[%d] %q is neither used nor reported: %v", i, ingress.IP, errs)
		}
	}
}

func usedAddr(text string, used []netip.Addr) bool {
	ip, _ := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	return slices.Contains(used, ip.Unmap())
}

// CheckSliceResult checks what an EndpointSlice was converted to: it must be well
// formed, and every endpoint and port must be used or reported.
func CheckSliceResult(t *testing.T, s *discoveryv1.EndpointSlice, out *model.EndpointSlice, errs field.ErrorList) {
	t.Helper()
	_, headless := s.Labels["service.kubernetes.io/headless"]
	service := s.Labels[discoveryv1.LabelServiceName]
	checkErrors(t, out != nil, !headless && service != "" && s.AddressType != discoveryv1.AddressTypeFQDN, errs)
	if out == nil {
		return
	}
	CheckSlice(t, *out)
	found := reportedBy(errs)
	missing := func(list string, n int) (count int) {
		for i := range n {
			if found.has(list, i) {
				count++
			}
		}
		return count
	}
	if n := len(out.Endpoints) + missing("endpoints", len(s.Endpoints)); n < len(s.Endpoints) {
		t.Errorf("of %d endpoints %d are used or reported", len(s.Endpoints), n)
	}
	if n := len(out.Ports) + missing("ports", len(s.Ports)); n < len(s.Ports) {
		t.Errorf("of %d ports %d are used or reported", len(s.Ports), n)
	}
}
