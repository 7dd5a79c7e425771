package explain

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/resolve"
)

// addCauses adds what leads to the verdict: what only the API server knows, then what the
// client's node found about the Service, and the hints of the nodes.
func (b *builder) addCauses(ctx context.Context, w *Way) {
	if w.Arrives != answer.Always {
		for _, d := range b.report.Differences {
			if d.Node == b.first {
				w.addCause(Cause{Text: d.String()})
			}
		}
	}
	if c := w.conflict; c != nil {
		w.addCause(Cause{
			Object: b.object(), Field: c.field + ": " + c.value,
			Text: c.to + " is held by Service " + c.holder + ", which clients reach there instead",
		})
		return // the rest is about the other Service
	}
	w.Causes = append(w.Causes, b.podCauses(ctx, w)...)
	known := len(w.Causes) > 0 // better than the client's node
	sticky := false
	for _, n := range w.answers() {
		sticky = sticky || n.Answer.Affinity != nil
		w.Causes = append(w.Causes, connectionCauses(n)...)
	}
	found := b.observed != nil && w.Service != ""
	if found {
		b.addContested(w)
		for _, f := range findings.Of(b.observed) {
			if w.concerns(&f) && !(known && slices.Contains(podReasons, f.Reason)) &&
				!(sticky && f.Reason == findings.Affinity) {
				w.addCause(Cause{Object: f.Object, Field: f.Field, Text: named(b.titles(&f), b.first)})
			}
		}
	}
	for i, n := range w.answers() {
		if found && i == 0 && !b.isUntranslated(w) {
			continue // its hints are about what was found
		}
		for _, hint := range n.Answer.Hints {
			w.addCause(Cause{Text: "node " + n.Node + ": " + hint})
		}
	}
}

// podReasons are the reasons of findings that the pods explain better.
var podReasons = []string{findings.NoEndpoints, findings.NotReady, findings.NoPort, nodestatus.ReasonNoPort}

// titles returns the text of a finding, which names pods beside addresses.
func (b *builder) titles(f *findings.Finding) string {
	named := slices.Clone(f.Named) // of one family
	f.NameEndpoints(func(endpoint string) string {
		if slices.Contains(named, endpoint) {
			return b.title(endpoint)
		}
		return ""
	})
	return f.Sentence()
}

func (w *Way) addCause(c Cause) {
	if !slices.Contains(w.Causes, c) {
		w.Causes = append(w.Causes, c)
	}
}

// otherAddress matches fields with addresses that the text of a finding names.
var otherAddress = regexp.MustCompile(`^(spec\.externalIPs|status\.loadBalancer|spec\.ports\[\]\.nodePort)`)

// concerns reports whether a finding is about the way: about its port, family, and address.
// Open connections of others are not.
func (w *Way) concerns(f *findings.Finding) bool {
	if f.Reason == findings.Stale || f.Severity == nodestatus.SeverityNotice && f.Name == "" {
		return false
	}
	_, port, _ := strings.Cut(w.Service, ":")
	if _, other, ok := strings.Cut(f.Object, ":"); ok && f.Name != "" && other != port {
		return false // of a port
	}
	if otherAddress.MatchString(f.Field) && !strings.Contains(f.Text, w.To) {
		return false
	}
	port = strings.TrimPrefix(port+"/"+strings.ToUpper(w.Protocol), "/")
	to, _ := netip.ParseAddrPort(w.To)
	at := []string{w.To + "/" + w.Protocol, fmt.Sprintf("*:%d/%s", to.Port(), w.Protocol)}
	has := func(list []string, values ...string) bool {
		return len(list) == 0 || slices.ContainsFunc(values, func(v string) bool { return slices.Contains(list, v) })
	}
	return has(f.Ports, port) && has(f.Families, w.Family) && has(f.Frontends, at...)
}

// connectionCauses names what connections of the client decide.
func connectionCauses(n NodeAnswer) (out []Cause) {
	a := n.Answer
	if a.Affinity != nil {
		out = append(out, Cause{
			Field: findings.FieldAffinity,
			Text: fmt.Sprintf("the client keeps %s for %s more", a.Affinity.Endpoint,
				time.Duration(a.Affinity.ExpiresSeconds)*time.Second),
		})
	}
	stale := 0
	for _, c := range a.Connections {
		if c.Stale {
			stale++
		}
	}
	if stale > 0 {
		out = append(out, Cause{Text: fmt.Sprintf("on node %s, %s of the client to endpoints that get no new ones; "+
			"--steps lists them", n.Node,
			nodestatus.Plural(stale, "open connection"))})
	}
	return out
}

// answers returns the answers of all nodes.
func (w *Way) answers() (out []NodeAnswer) {
	if w.Client.Answer != nil {
		out = append(out, w.Client)
	}
	for _, e := range w.Endpoints {
		if e.There != nil && e.There.Answer != nil {
			out = append(out, *e.There)
		}
	}
	return out
}

// readPods reads the pods that the Service selects.
func (b *builder) readPods(ctx context.Context) error {
	s := b.destination.Service
	if s == nil {
		return nil
	}
	pods, err := resolve.SelectedPods(ctx, b.Resolver.API, s)
	if apierrors.IsForbidden(err) {
		b.report.Notes = append(b.report.Notes, "pods of namespace "+s.Namespace+" are not examined: "+err.Error())
		return nil
	}
	b.pods = pods
	return err
}

// podCauses returns what the selector and pods of the Service lead to.
func (b *builder) podCauses(ctx context.Context, w *Way) []Cause {
	s := b.destination.Service
	if s == nil {
		return nil
	}
	if proxy := s.Labels[labelProxyName]; proxy != "" {
		return []Cause{{
			Object: b.object(), Field: "metadata.labels[" + labelProxyName + "]: " + proxy,
			Text: "another proxy is responsible for the Service",
		}}
	}
	if len(s.Spec.Selector) == 0 {
		return nil
	}
	_, name, _ := strings.Cut(w.Service, ":")
	causes := resolve.TargetPorts(s, b.pods, func(p *corev1.ServicePort) bool { return p.Name == name })
	switch {
	case slices.Contains(slices.Collect(maps.Values(sliceEndpoints(b.slices, s))), true): // one is ready
		return causes
	case len(b.pods) == 0:
		return []Cause{resolve.Selector(ctx, b.Resolver.API, s)}
	}
	return append(causes, resolve.Readiness(b.pods)...)
}

// object returns "Service shop/web", the one that packets are for.
func (b *builder) object() string {
	return "Service " + b.destination.Service.Namespace + "/" + b.destination.Service.Name
}
