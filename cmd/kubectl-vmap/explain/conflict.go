package explain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

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

// claims are how Services have addresses and ports, in the order in which they win.
var claims = []struct {
	kind       model.Kind
	why, field string
}{
	{model.KindClusterIP, "its ClusterIP", "spec.clusterIPs"},
	{model.KindNodePort, "its node port", "spec.ports[].nodePort"},
	{model.KindLoadBalancerIP, "its load balancer IP", "status.loadBalancer.ingress[].ip"},
	{model.KindExternalIP, "", "spec.externalIPs"},
}

// claimOf returns the place of a kind among the claims.
func claimOf(kind string) int {
	for i, c := range claims {
		if c.kind.String() == kind {
			return i
		}
	}
	return len(claims)
}

// addConflicts notes the ways that lead to another Service than the one that was asked about.
func (b *builder) addConflicts(ctx context.Context) {
	s := b.destination.Service
	if s == nil {
		return
	}
	for i := range b.report.Ways {
		w := &b.report.Ways[i]
		holder, _, _ := strings.Cut(w.Service, ":")
		if holder == "" || holder == s.Namespace+"/"+s.Name {
			continue
		}
		to, _ := netip.ParseAddrPort(w.To)
		value := to.Addr().String()
		kind := resolve.AddressKind(s, to.Addr())
		if kind == "" {
			kind, value = model.KindNodePort.String(), fmt.Sprint(to.Port())
		}
		mine, theirs := claimOf(kind), claimOf(w.Kind)
		w.conflict = &conflict{to: w.To, holder: holder, field: claims[mine].field, value: value}
		if theirs < mine {
			w.conflict.why = claims[theirs].why
			continue
		}
		namespace, name, _ := strings.Cut(holder, "/")
		o, err := b.Resolver.API.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && o.CreationTimestamp.Before(&s.CreationTimestamp) {
			w.conflict.why = "older"
		}
	}
}

// String returns "203.0.113.1:80 belongs to service shop/older (older)".
func (c *conflict) String() string {
	text := c.to + " belongs to service " + c.holder
	if c.why != "" {
		text += " (" + c.why + ")"
	}
	return text
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
			if slices.Contains(words, w.To+"/"+w.Protocol) ||
				slices.Contains(words, fmt.Sprintf("*:%d/%s", to.Port(), w.Protocol)) {
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
