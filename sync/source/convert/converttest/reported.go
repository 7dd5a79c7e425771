package converttest

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

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

// count returns how many of the first n entries errors are about.
func (r reported) count(list string, n int) (count int) {
	for i := range n {
		if r.has(list, i) {
			count++
		}
	}
	return count
}

// check checks that the unused ones of the n entries of a list are reported.
func (r reported) check(t *testing.T, list string, n, used int) {
	t.Helper()
	if used += r.count(list, n); used < n {
		t.Errorf("%s: of %d, %d are used or reported: %v", list, n, used, r)
	}
}

// CheckServiceResult checks the result of converting a Service: it must be well formed,
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
	closed := found.count("spec.loadBalancerSourceRanges", max(1, len(s.Spec.LoadBalancerSourceRanges))) > 0 ||
		found.has("metadata.annotations[kube-vmap.io/denied-source-ranges", 0) || found["status.loadBalancer.ingress"]
	for i, p := range s.Spec.Ports {
		if closed && out.RangesForAll {
			p.NodePort = 0
		}
		used := slices.ContainsFunc(out.Ports, func(o model.ServicePort) bool {
			return o.Name == p.Name && int32(o.Port) == p.Port && int32(o.NodePort) == p.NodePort
		})
		if !used && !found.has("spec.ports", i) {
			t.Errorf("port %+v is neither used nor reported: %v", p, errs)
		}
	}
	if !closed || !out.RangesForAll {
		found.check(t, "spec.externalIPs", len(s.Spec.ExternalIPs), len(out.ExternalIPs))
	}
	if len(s.Spec.LoadBalancerSourceRanges) > 0 && len(out.SourceRanges) == 0 && len(out.LoadBalancerIPs) > 0 {
		t.Errorf("all ranges %q were dropped, which opens %v", s.Spec.LoadBalancerSourceRanges, out.LoadBalancerIPs)
	}
	used := len(out.LoadBalancerIPs)
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		if closed || ingress.IP == "" || ptr.Deref(ingress.IPMode, "") == corev1.LoadBalancerIPModeProxy {
			used++
		}
	}
	found.check(t, "status.loadBalancer.ingress", len(s.Status.LoadBalancer.Ingress), used)
}

// CheckSliceResult checks the result of converting an EndpointSlice: it must be well
// formed, and every endpoint and port must be used or reported.
func CheckSliceResult(t *testing.T, s *discoveryv1.EndpointSlice, out *model.EndpointSlice, errs field.ErrorList) {
	t.Helper()
	_, headless := s.Labels["service.kubernetes.io/headless"]
	service := s.Labels[discoveryv1.LabelServiceName]
	checkErrors(t, out != nil, !headless && service != "", errs)
	if out == nil {
		return
	}
	CheckSlice(t, *out)
	found := reportedBy(errs)
	found.check(t, "endpoints", len(s.Endpoints), len(out.Endpoints))
	found.check(t, "ports", len(s.Ports), len(out.Ports))
}
