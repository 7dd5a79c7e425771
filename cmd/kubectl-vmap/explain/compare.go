package explain

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
)

// compare adds what nodes know otherwise than the API server. Nodes that differ are read
// again after a moment, since objects change all the time and reach each node on its own. What a
// node knew before is no difference, if it does not answer again.
func (b *builder) compare(ctx context.Context) error {
	s := b.destination.Service
	if s == nil || !model.Serves(s.Labels) {
		return nil
	}
	var differing []string
	for _, node := range slices.SortedFunc(maps.Keys(b.documents), findings.CompareNames) {
		if len(b.differences(node, b.documents[node])) > 0 {
			differing = append(differing, node)
		}
	}
	if len(differing) == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(b.Settle):
	}
	if err := b.readSlices(ctx); err != nil {
		return err
	}
	q := nodestatus.Query{}
	q.Namespace, q.Name = b.service()
	differences := make([][]Difference, len(differing))
	each(len(differing), func(i int) {
		node := differing[i]
		if d, err := b.Nodes.Document(ctx, node, q); err != nil {
			b.silent(node, "what it knows about the Service was not read again: "+err.Error())
		} else {
			differences[i] = b.differences(node, d)
		}
	})
	b.report.Differences = append(b.report.Differences, slices.Concat(differences...)...)
	return nil
}

func (b *builder) differences(node string, d *nodestatus.Document) (out []Difference) {
	if d.Source != nodestatus.FromDaemon {
		return nil
	}
	add := func(format string, what []string) {
		if len(what) > 0 { // an endpoint may differ for several ports
			out = append(out, Difference{Node: node, Text: fmt.Sprintf(format, some(slices.Compact(what))), Lag: b.lag(d)})
		}
	}
	add("does not have %s", b.lacking(d))
	want, got := sliceEndpoints(b.slices, b.destination.Service), b.documentEndpoints(d)
	all := maps.Clone(want)
	maps.Copy(all, got)
	var lacks, extra, ready, unready []string
	for _, k := range slices.SortedFunc(maps.Keys(all), func(a, b endpointKey) int { return a.at.Compare(b.at) }) {
		isReady, exists := want[k]
		known, has := got[k]
		switch title := b.title(k.at.String()); {
		case !has:
			lacks = append(lacks, title)
		case !exists:
			extra = append(extra, title)
		case known && !isReady:
			ready = append(ready, title)
		case !known && isReady:
			unready = append(unready, title)
		}
	}
	add("does not have endpoints %s, which EndpointSlices have", lacks)
	add("has endpoints %s, which no EndpointSlice has", extra)
	add("has endpoints %s as ready, and EndpointSlices as not ready", ready)
	add("has endpoints %s as not ready, and EndpointSlices as ready", unready)
	return out
}

type endpointKey struct {
	port     string
	protocol corev1.Protocol
	at       netip.AddrPort
}

// sliceEndpoints returns whether the endpoints of the Service's ports are ready.
func sliceEndpoints(list []discoveryv1.EndpointSlice, s *corev1.Service) map[endpointKey]bool {
	out := map[endpointKey]bool{}
	for _, slice := range list {
		if !slices.Contains(s.Spec.IPFamilies, corev1.IPFamily(slice.AddressType)) && len(s.Spec.IPFamilies) > 0 {
			continue // of domain names, or of a family that the Service does not have
		}
		for _, p := range slice.Ports {
			if p.Port == nil || !hasPort(s, p) {
				continue
			}
			for _, e := range slice.Endpoints {
				if len(e.Addresses) > 0 {
					at := netip.AddrPortFrom(answer.Addr(e.Addresses[0]), uint16(*p.Port)) //nolint:gosec // validated
					k := endpointKey{ptr.Deref(p.Name, ""), resolve.Protocol(ptr.Deref(p.Protocol, "")), at}
					out[k] = out[k] || ptr.Deref(e.Conditions.Ready, true)
				}
			}
		}
	}
	return out
}

func hasPort(s *corev1.Service, p discoveryv1.EndpointPort) bool {
	return slices.ContainsFunc(s.Spec.Ports, func(sp corev1.ServicePort) bool {
		return sp.Name == ptr.Deref(p.Name, "") &&
			resolve.Protocol(sp.Protocol) == resolve.Protocol(ptr.Deref(p.Protocol, ""))
	})
}

func (b *builder) documentEndpoints(d *nodestatus.Document) map[endpointKey]bool {
	out := map[endpointKey]bool{}
	for s, p := range d.EachPort() {
		if s.Name != b.destination.Service.Name || s.Namespace != b.destination.Service.Namespace {
			continue // another one, which holds the address
		}
		for i := range p.Endpoints {
			e := &p.Endpoints[i]
			if e.Port == 0 || e.Reason == nodestatus.ReasonGone {
				continue // the EndpointSlice does not have the port, or was removed
			}
			k := endpointKey{p.Name, corev1.Protocol(p.Protocol), e.AddrPort()}
			out[k] = out[k] || e.KnownConditions().Ready
		}
	}
	return out
}

// lacking returns the cluster IPs and ports that a document lacks.
func (b *builder) lacking(d *nodestatus.Document) (out []string) {
	has := map[string]bool{}
	for _, p := range d.EachPort() {
		for _, f := range p.Frontends {
			has[f.At(p.Protocol)] = true
		}
	}
	for _, ip := range b.destination.Service.Spec.ClusterIPs {
		for _, p := range b.destination.Service.Spec.Ports {
			f := nodestatus.Frontend{Address: ip, Port: uint16(p.Port)} //nolint:gosec // validated by the API server
			if at := f.At(string(resolve.Protocol(p.Protocol))); answer.Addr(ip).IsValid() && !has[at] {
				out = append(out, at)
			}
		}
	}
	return out
}

// lag returns why a node may be behind the API server.
func (b *builder) lag(d *nodestatus.Document) string {
	var out []string
	for _, p := range findings.WithTexts(findings.OfNode(d)) {
		if p.Severity == nodestatus.SeverityProblem {
			out = append(out, p.Text)
		}
	}
	for _, p := range ptr.Deref(d.Health, nodestatus.Health{}).Positions {
		if p.Kind == "EndpointSlice" && slices.ContainsFunc(b.slices, func(s discoveryv1.EndpointSlice) bool {
			n, err := resourceversion.CompareResourceVersion(s.ResourceVersion, p.ResourceVersion)
			return err == nil && n > 0
		}) {
			out = append(out, "it has not seen the newest EndpointSlice of the Service")
		}
	}
	return strings.Join(out, "; ")
}
