package explain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
)

// A conflict is why an address and port of the Service belongs to another one.
type conflict struct {
	to     string // the address and port
	holder string // "shop/older"
	why    string // why that one wins; empty if that is not known
	field  string // by which the Service claims them, and its value
	value  string
}

// addConflicts notes the ways that lead to another Service than the one that was asked about.
func (b *builder) addConflicts(ctx context.Context) {
	s := b.destination.Service
	if s == nil {
		return
	}
	holders := map[string]*corev1.Service{}
	for i := range b.report.Ways {
		w := &b.report.Ways[i]
		holder, _, _ := strings.Cut(w.Service, ":")
		if holder == "" || holder == s.Namespace+"/"+s.Name {
			continue
		}
		if _, known := holders[holder]; !known {
			namespace, name, _ := strings.Cut(holder, "/")
			o, err := b.Resolver.API.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				o = nil // it only adds why
			}
			holders[holder] = o
		}
		to, _ := netip.ParseAddrPort(w.To)
		w.conflict = &conflict{to: w.To, holder: holder}
		w.conflict.field, w.conflict.value = claimOf(s, to)
		w.conflict.why = wins(holders[holder], w.Kind, s, w.conflict.field)
	}
}

// The fields by which Services claim addresses and ports.
const (
	fieldClusterIPs  = "spec.clusterIPs"
	fieldIngress     = "status.loadBalancer.ingress[].ip"
	fieldExternalIPs = "spec.externalIPs"
	fieldNodePort    = "spec.ports[].nodePort"
)

// claimOf returns the field by which a Service claims an address and port, with its value.
func claimOf(s *corev1.Service, to netip.AddrPort) (field, value string) {
	has := func(text string) bool { return addr(text) == to.Addr() }
	switch {
	case slices.ContainsFunc(s.Spec.ClusterIPs, has):
		return fieldClusterIPs, to.Addr().String()
	case slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return has(i.IP) }):
		return fieldIngress, to.Addr().String()
	case slices.ContainsFunc(s.Spec.ExternalIPs, has):
		return fieldExternalIPs, to.Addr().String()
	}
	return fieldNodePort, fmt.Sprint(to.Port())
}

// wins returns why the holder, which has the address by a kind, wins over another Service,
// which claims it by a field; empty if that is not known.
func wins(holder *corev1.Service, kind string, over *corev1.Service, field string) string {
	switch {
	case kind == model.KindClusterIP.String() && field != fieldClusterIPs:
		return "its ClusterIP"
	case kind == model.KindNodePort.String() && field != fieldNodePort:
		return "its node port"
	case kind == model.KindLoadBalancerIP.String() && field == fieldExternalIPs:
		return "its load balancer IP"
	case holder != nil && holder.CreationTimestamp.Before(&over.CreationTimestamp):
		return "older"
	}
	return ""
}

// String returns "203.0.113.1:80 belongs to service shop/older (older)".
func (c *conflict) String() string {
	text := c.to + " belongs to service " + c.holder
	if c.why != "" {
		text += " (" + c.why + ")"
	}
	return text
}

// cause returns the field that claims an address of another Service.
func (c *conflict) cause(s *corev1.Service) Cause {
	return Cause{
		Object: "Service " + s.Namespace + "/" + s.Name, Field: c.field + ": " + c.value,
		Text: c.to + " is held by Service " + c.holder + ", which clients reach there instead",
	}
}

// addContested adds, for packets to an address, the Services that claim it in vain: the
// question may be why one of them does not answer there.
func (b *builder) addContested(w *Way) {
	to, err := netip.ParseAddrPort(w.To)
	if b.destination.Kind == resolve.KindService || err != nil {
		return
	}
	for i := range b.observed.Services {
		for _, p := range b.observed.Services[i].Contested {
			words := strings.FieldsFunc(p.Text, func(r rune) bool { return r == ' ' || r == ',' })
			if slices.Contains(words, w.To+"/"+w.Protocol) || slices.Contains(words, fmt.Sprintf("*:%d/%s", to.Port(), w.Protocol)) {
				w.addCause(Cause{Object: p.Object, Field: p.Field, Text: p.Text})
			}
		}
	}
}

// conflicts returns the addresses that belong to other Services, and the fields that claim
// them; empty if there are none.
func (r *Report) conflicts() string {
	var texts, fields []string
	for i := range r.Ways {
		if c := r.Ways[i].conflict; c != nil {
			texts, fields = append(texts, c.String()), append(fields, c.field)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	slices.Sort(fields)
	return some(unique(texts)) + "; " + strings.Join(slices.Compact(fields), ", ")
}

// unique returns a list without repetitions, in the same order.
func unique(list []string) (out []string) {
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
