package explain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/explain/reference"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
)

// addCauses adds the causes of the verdict: what only the API server knows, then what the
// client's node found about the Service, and the hints of the nodes. If another Service has the
// address, the rest is about that one.
func (b *builder) addCauses(ctx context.Context, w *Way) {
	if w.Arrives != answer.Always {
		for _, d := range b.report.Differences {
			if d.Node == b.first {
				w.addCause(resolve.Cause{Text: d.String()})
			}
		}
	}
	if w.holder == "" {
		w.Causes = append(w.Causes, b.podCauses(ctx, w)...)
	}
	known := len(w.Causes) > 0 // better than the client's node
	sticky := false
	for _, n := range w.answers() {
		if w.holder == "" {
			sticky = sticky || n.Answer.Affinity != nil
			w.Causes = append(w.Causes, connectionCauses(n)...)
		}
	}
	d := b.documents[b.first]
	found := d != nil && w.Service != ""
	if found {
		b.addContested(w, d)
		for _, f := range findings.Of(d) {
			if b.isOfService(&f) && w.concerns(&f) && (w.holder == "" || f.Message == w.holder) &&
				!(known && slices.Contains(podReasons, f.Reason)) && !(sticky && f.Reason == nodestatus.ReasonAffinity) {
				w.addCause(resolve.Cause{Object: f.Object, Field: f.Field, Text: b.sentence(&f)})
			}
		}
	}
	if w.holder != "" {
		return
	}
	for i, n := range w.answers() {
		if found && i == 0 && !b.isUntranslated(w) {
			continue // its hints are about what was found
		}
		for _, hint := range n.Answer.Hints {
			w.addCause(resolve.Cause{Text: "node " + n.Node + ": " + hint})
		}
	}
}

// isOfService reports whether a finding is about the Service of the packets, or about none. A node
// may know another Service, too, which holds the address.
func (b *builder) isOfService(f *findings.Finding) bool {
	namespace, name := b.service()
	return f.Name == "" || f.Name == name && f.Namespace == namespace
}

// podReasons are the reasons of findings that the pods explain better.
var podReasons = []string{nodestatus.ReasonNoEndpoints, nodestatus.ReasonNotReady, nodestatus.ReasonNoPort}

// sentence returns the words about a finding, which name pods next to addresses.
func (b *builder) sentence(f *findings.Finding) string {
	named := slices.Clone(f.Named) // of one family
	f.NameEndpoints(func(endpoint string) string {
		if slices.Contains(named, endpoint) {
			return b.title(endpoint)
		}
		return ""
	})
	return f.SentenceAt(b.first)
}

func (w *Way) addCause(c resolve.Cause) {
	if !slices.Contains(w.Causes, c) {
		w.Causes = append(w.Causes, c)
	}
}

// isIn reports whether a list has the address and port, as findings name them; an empty list
// means all.
func (w *Way) isIn(list []string) bool {
	return len(list) == 0 || slices.Contains(list, w.To+"/"+w.Protocol) ||
		slices.Contains(list, fmt.Sprintf("*:%d/%s", answer.AddrPort(w.To).Port(), w.Protocol))
}

// concerns reports whether a finding is about the way: about its port, family, and address.
// Open connections of others are not.
func (w *Way) concerns(f *findings.Finding) bool {
	_, port, _ := strings.Cut(w.Service, ":")
	_, of, isOfPort := strings.Cut(f.Object, ":")
	_, value, _ := strings.Cut(f.Field, ": ")
	other, err := netip.ParseAddr(value)
	switch {
	case f.Reason == nodestatus.ReasonStale, f.Severity == nodestatus.SeverityNotice && f.Name == "":
		return false
	case isOfPort && f.Name != "" && of != port, err == nil && other != answer.AddrPort(w.To).Addr():
		return false
	case f.Reason == model.ProblemConflict && (len(f.Names) == 0 || !w.isIn(f.Names)):
		return false
	}
	port = strings.TrimPrefix(port+"/"+strings.ToUpper(w.Protocol), "/")
	has := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return has(f.Families, w.Family) && w.isIn(f.Frontends) && (w.holder != "" || has(f.Ports, port))
}

// addContested adds, for packets to an address, the Services with a lost claim to it: the
// user may ask why one of them does not answer there.
func (b *builder) addContested(w *Way, d *nodestatus.Document) {
	if b.destination.Kind == reference.KindService {
		return
	}
	for i := range d.Services {
		for _, p := range d.Services[i].Contested {
			if len(p.Names) > 0 && w.isIn(p.Names) {
				w.addCause(resolve.Cause{Object: p.Object, Field: p.Field, Text: p.Text})
			}
		}
	}
}

// connectionCauses names what connections of the client decide.
func connectionCauses(n NodeAnswer) (out []resolve.Cause) {
	a := n.Answer
	if a.Affinity != nil {
		out = append(out, resolve.Cause{
			Field: nodestatus.FieldAffinity,
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
		out = append(out, resolve.Cause{Text: fmt.Sprintf("on node %s, %s of the client to endpoints that get no new ones; "+
			"--steps lists them", n.Node, nodestatus.Plural(stale, "open connection"))})
	}
	return out
}

func (b *builder) readPods(ctx context.Context) (err error) {
	s := b.destination.Service
	if s == nil {
		return nil
	}
	if b.pods, err = resolve.SelectedPods(ctx, b.Resolver.API, s); apierrors.IsForbidden(err) {
		b.report.Notes = append(b.report.Notes, "pods of namespace "+s.Namespace+" are not examined: "+err.Error())
		return nil
	}
	return err
}

// podCauses returns the causes in the selector and pods of the Service.
func (b *builder) podCauses(ctx context.Context, w *Way) []resolve.Cause {
	s := b.destination.Service
	if s == nil {
		return nil
	}
	if !model.Serves(s.Labels) {
		label := model.LabelServiceProxyName
		return []resolve.Cause{{
			Object: "Service " + s.Namespace + "/" + s.Name, Field: "metadata.labels[" + label + "]: " + s.Labels[label],
			Text: "another proxy is responsible for the Service",
		}}
	}
	if len(s.Spec.Selector) == 0 {
		return nil
	}
	_, name, _ := strings.Cut(w.Service, ":")
	causes := resolve.TargetPorts(s, b.pods, func(p *corev1.ServicePort) bool { return p.Name == name })
	for _, ready := range sliceEndpoints(b.slices, s) {
		if ready {
			return causes
		}
	}
	if len(b.pods) == 0 {
		return []resolve.Cause{resolve.Selector(ctx, b.Resolver.API, s)}
	}
	return append(causes, resolve.Readiness(b.pods)...)
}
