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

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/resolve"
)

// compare adds what nodes know otherwise than the API server. Nodes that differ are asked
// again after a moment, since objects change all the time and reach each node on its own.
func (b *builder) compare(ctx context.Context) error {
	s := b.destination.Service
	if s == nil || s.Labels[labelProxyName] != "" {
		return nil
	}
	var differing []string
	for node, d := range b.documents {
		if len(b.differences(node, d)) > 0 {
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
	observed := b.documents[b.first]
	each(len(differing), func(i int) { b.readDocument(ctx, differing[i], 0) })
	for _, node := range slices.Sorted(maps.Keys(b.documents)) {
		b.report.Differences = append(b.report.Differences, b.differences(node, b.documents[node])...)
	}
	b.documents[b.first] = observed
	return nil
}

// differences returns what a node knows otherwise.
func (b *builder) differences(node string, d *nodestatus.Document) (out []Difference) {
	if d.Source != nodestatus.FromDaemon {
		return nil
	}
	add := func(text string) { out = append(out, Difference{Node: node, Text: text, Lag: b.lag(d)}) }
	if lacking := b.frontends(d); len(lacking) > 0 {
		add("does not have " + some(lacking))
	}
	b.endpointDifferences(d, add)
	return out
}

// labelProxyName names another proxy that is responsible for a Service.
const labelProxyName = "service.kubernetes.io/service-proxy-name"

// An endpointKey is an endpoint of one port of the Service.
type endpointKey struct {
	port, protocol string
	at             netip.AddrPort
}

func (k endpointKey) compare(o endpointKey) int {
	if c := k.at.Compare(o.at); c != 0 {
		return c
	}
	return strings.Compare(k.port+"/"+k.protocol, o.port+"/"+o.protocol)
}

// endpointDifferences adds how the endpoints of a document differ from the EndpointSlices.
func (b *builder) endpointDifferences(d *nodestatus.Document, add func(text string)) {
	want, got := sliceEndpoints(b.slices, b.destination.Service), documentEndpoints(d)
	all := maps.Clone(want)
	maps.Copy(all, got)
	formats := [...]string{
		"does not have %s, which EndpointSlices have", "has %s, which no EndpointSlice has",
		"has %s as ready, and EndpointSlices as not ready", "has %s as not ready, and EndpointSlices as ready",
	}
	titles := [len(formats)][]string{}
	for _, k := range slices.SortedFunc(maps.Keys(all), endpointKey.compare) {
		isReady, exists := want[k]
		known, has := got[k]
		i := slices.Index([]bool{!has, !exists, known && !isReady, !known && isReady}, true)
		if title := b.title(k.at.String()); i >= 0 && !slices.Contains(titles[i], title) { // one for all ports
			titles[i] = append(titles[i], title)
		}
	}
	for i, list := range titles {
		switch len(list) {
		case 0:
		case 1:
			add(fmt.Sprintf(formats[i], "endpoint "+list[0]))
		default:
			add(fmt.Sprintf(formats[i], "endpoints "+some(list)))
		}
	}
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
				if len(e.Addresses) == 0 {
					continue
				}
				at := netip.AddrPortFrom(addr(e.Addresses[0]), uint16(*p.Port)) //nolint:gosec // validated by the API server
				k := endpointKey{ptr.Deref(p.Name, ""), string(protocolOf(p)), at}
				out[k] = out[k] || ptr.Deref(e.Conditions.Ready, true)
			}
		}
	}
	return out
}

func hasPort(s *corev1.Service, p discoveryv1.EndpointPort) bool {
	return slices.ContainsFunc(s.Spec.Ports, func(sp corev1.ServicePort) bool {
		return sp.Name == ptr.Deref(p.Name, "") && resolve.Protocol(sp.Protocol) == protocolOf(p)
	})
}

func protocolOf(p discoveryv1.EndpointPort) corev1.Protocol {
	return resolve.Protocol(ptr.Deref(p.Protocol, ""))
}

// ports are the ports of the Services of a document, which may be nil.
func ports(d *nodestatus.Document) (out []*nodestatus.Port) {
	if d != nil {
		for i := range d.Services {
			for k := range d.Services[i].Ports {
				out = append(out, &d.Services[i].Ports[k])
			}
		}
	}
	return out
}

func documentEndpoints(d *nodestatus.Document) map[endpointKey]bool {
	out := map[endpointKey]bool{}
	for _, p := range ports(d) {
		for i := range p.Endpoints {
			e := &p.Endpoints[i]
			if e.Port == 0 || e.Reason == nodestatus.ReasonGone {
				continue // the EndpointSlice does not have the port, or there is none any more
			}
			k := endpointKey{p.Name, p.Protocol, e.AddrPort()}
			out[k] = out[k] || e.KnownConditions().Ready
		}
	}
	return out
}

// frontends returns the cluster IPs and ports that a document lacks.
func (b *builder) frontends(d *nodestatus.Document) (lacking []string) {
	has := map[string]bool{}
	for _, p := range ports(d) {
		for _, f := range p.Frontends {
			has[f.At(p.Protocol)] = true
		}
	}
	for _, ip := range b.destination.Service.Spec.ClusterIPs {
		for _, p := range b.destination.Service.Spec.Ports {
			f := nodestatus.Frontend{Address: ip, Port: uint16(p.Port)} //nolint:gosec // validated by the API server
			if at := f.At(string(resolve.Protocol(p.Protocol))); addr(ip).IsValid() && !has[at] {
				lacking = append(lacking, at)
			}
		}
	}
	return lacking
}

// lag returns why a node may be behind the API server.
func (b *builder) lag(d *nodestatus.Document) string {
	var out []string
	for _, p := range findings.WithTexts(findings.OfNode(d)) {
		if p.Severity == nodestatus.SeverityProblem {
			out = append(out, p.Text)
		}
	}
	newer := func(a, b string) bool {
		n, err := resourceversion.CompareResourceVersion(a, b)
		return err == nil && n > 0
	}
	newest := ""
	for i := range b.slices {
		if v := b.slices[i].ResourceVersion; newest == "" || newer(v, newest) {
			newest = v
		}
	}
	for _, p := range ptr.Deref(d.Health, nodestatus.Health{}).Positions {
		if p.Kind == "EndpointSlice" && newer(newest, p.ResourceVersion) {
			out = append(out, fmt.Sprintf("the newest EndpointSlice that it knows has resource version %s, and one of the "+
				"Service has %s", p.ResourceVersion, newest))
		}
	}
	return strings.Join(out, "; ")
}
